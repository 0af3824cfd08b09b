"""``/docs``: what ``/openapi.json`` says, as one page of HTML that needs nothing else."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import orjson
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from gateway.wire.row_schema import COMPONENTS

_TEMPLATE = Path(__file__).with_suffix(".html.jinja")
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "{} characters or more",
    "maxLength": "up to {} characters",
    "minItems": "{} items or more",
    "maxItems": "up to {} items",
    "pattern": "like {}",
}
_CODE = re.compile("`([^`]*)`")
_LINK, _OR = Markup('<a href="#{0}">{0}</a>'), Markup(" | ")
_UNBOUNDED = 2**63 - 1
"""What a bound of a signed number of 64 bits is, which nobody needs to be told."""


@cache
def page_of(description: bytes) -> bytes:
    """The page of a description. It is made once for each: that takes some 30 ms."""
    told: Mapping[str, Any] = orjson.loads(description)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["told"] = _told
    template = environment.from_string(_TEMPLATE.read_text())
    return template.render(
        about=told["info"], topics=_topics(told), components=told["components"], kind=kind_of
    ).encode()


def _told(text: str) -> Markup:
    """Prose, in which what stands between backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  # it is escaped


def kind_of(schema: Mapping[str, Any]) -> Markup:
    """What a value is, in a few words of HTML; components are links."""
    if "$ref" in schema:
        return _LINK.format(str(schema["$ref"]).removeprefix(COMPONENTS))
    if "const" in schema:
        return _literal(schema["const"])
    if "enum" in schema:
        return _OR.join(map(_literal, schema["enum"]))
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _OR.join(map(kind_of, cast(Sequence[Mapping[str, Any]], schema[union])))
    words = _of_type(schema)
    bounds = [said.format(schema[name]) for name, said in _BOUNDS.items() if name in schema and _tells(schema[name])]
    return words + f" ({', '.join(bounds)})" if bounds else words


def _tells(bound: object) -> bool:
    return not isinstance(bound, int | float) or abs(bound) < _UNBOUNDED


def _of_type(schema: Mapping[str, Any]) -> Markup:
    named = schema.get("type", "anything")
    words = escape(" | ".join(named) if isinstance(named, list) else named)
    if words == "array":
        return Markup("list of ") + kind_of(schema.get("items", {}))
    values = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
    within = next((value for value in values if isinstance(value, dict)), None)
    return words + Markup(" of ") + kind_of(within) if within else words


def _literal(value: object) -> Markup:
    return escape(orjson.dumps(value).decode())


def _topics(told: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The operations of each topic, in the order in which they are described."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            shown = {"path": path, "method": method.upper(), **operation}
            topics.setdefault(operation["tags"][0], []).append(shown)
    return topics
