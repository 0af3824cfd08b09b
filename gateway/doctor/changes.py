"""What a harness changed between one turn and the next, as it is told."""

from collections.abc import Mapping, Sequence

from gateway.core.canon import canonical_json, root_of
from gateway.core.types import JsonObject
from gateway.doctor.excerpt import cut, excerpts
from gateway.doctor.lines import Step


def changes_within(step: Step) -> list[JsonObject]:
    """The messages that make another history: where they stand, whose they are, what differs, a few words of both."""
    found: list[JsonObject] = []
    for one in step.differences:
        if one.change == "accepted":
            continue
        before, after = excerpts(one.before, one.after)
        about: JsonObject = {"message": one.position, "role": one.role, "change": one.change, "what": list(one.kinds)}
        found.append({**about, "before": before, "after": after})
    return found


def changes_above(step: Step) -> list[JsonObject]:
    """What stands above the messages and is another than before: model, template arguments, tools, system."""
    if step.before is None:
        return []
    old, new = step.before.request, step.request
    found: list[JsonObject] = []
    if (old.model or "") != (new.model or ""):
        found.append({"what": "model", "before": old.model, "after": new.model})
    kwargs = canonical_json(dict(old.template_kwargs)), canonical_json(dict(new.template_kwargs))
    if kwargs[0] != kwargs[1]:
        found.append({"what": "template_kwargs", "before": cut(kwargs[0]), "after": cut(kwargs[1])})
    before, after = root_of(old), root_of(new)
    if before.tools != after.tools:
        found.append(_tools(old.tools, new.tools))
    if before.system != after.system:
        system = [[message for message in asked.messages[:1] if message.role == "system"] for asked in (old, new)]
        was, now = excerpts(*(some[0] if some else None for some in system))
        found.append({"what": "system", "before": was, "after": now})
    return found


def _tools(old: Sequence[JsonObject], new: Sequence[JsonObject]) -> JsonObject:
    before, after = _by_name(old), _by_name(new)
    gone, come = [name for name in before if name not in after], [name for name in after if name not in before]
    other = [name for name in before if name in after and before[name] != after[name]]
    moved = ["their order"] if not (gone or come or other) else []
    return {
        "what": "tools",
        "before": cut(", ".join([*gone, *other, *moved])) or None,
        "after": cut(", ".join([*come, *other, *moved])) or None,
    }


def _by_name(tools: Sequence[JsonObject]) -> dict[str, str]:
    named = {}
    for tool in tools:
        function = tool.get("function")
        name = str(function.get("name")) if isinstance(function, Mapping) else "?"
        named[name] = canonical_json(tool)
    return named
