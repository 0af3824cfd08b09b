"""How an answer is bound to a grammar: what the client asked for, or a tool call as the model itself would write it.

A forced call is a structural tag of xgrammar, the grammar backend that vLLM chooses by itself. Its markers are
forced by id, as single tokens, so that the parser of the model's own calls reads them; the name is one of the tools',
and the arguments follow that tool's schema in the family's own notation. Behind the call the answer ends.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from gateway.core.types import JsonObject, TurnRequest
from gateway.errors import BadRequest
from gateway.render.protocol import Tokenizer

_MAX_WHITESPACE = 1
"""Characters between the parts of the arguments: what these families write, and no room to wander in."""
_MARKER = re.compile(r"(</?tool_call>|<｜[^｜]*｜>|｜DSML｜)")
_OPEN_THOUGHT = re.compile(r"(<think>|<\|think\|>|<seed:think>|\[THINK\]|◁think▷)\s*$")
_TAIL_IDS = 16
"""Ids at the end of a prompt that hold such a marker, also where it is spelled in letters."""
_CHANNEL = "<|channel|>"
"""The token with which some formats say what kind of text follows, the answer itself too."""
_BARE_NAME = re.compile(r"[^\s<>\"]+")
"""Names that can stand in a call without quotes."""


@dataclass(frozen=True, slots=True)
class _CallForm:
    """A call as it is written: `before`, the name, `between`, the arguments, `after`."""

    before: str
    between: str
    after: str
    style: str = "json"
    """How the arguments are written, in xgrammar's words."""
    name_is_json: bool = False


_HERMES = _CallForm('<tool_call>\n{"name": ', ', "arguments": ', "}\n</tool_call>", name_is_json=True)
_XML = _CallForm("<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "qwen_xml")
_FENCED = _CallForm(
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    "\n```json\n",
    "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
)
_DSML = _CallForm(
    '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="',
    '">\n',
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "deepseek_xml",
)

_FORMS: Mapping[str, _CallForm] = {
    "demo": _HERMES,
    "qwen3": _HERMES,
    "qwen3.5": _XML,
    "qwen3.6": _XML,
    "deepseek-v3": _FENCED,
    "deepseek-r1": _FENCED,
    "deepseek-v4": _DSML,
}
"""By the names of the formats that can be parsed."""


def constraint(
    request: TurnRequest, format_name: str | None, tokenizer: Tokenizer, *, opens_thought: bool
) -> JsonObject | None:
    """What binds the answer, as vLLM's `structured_outputs`; ``None`` where nothing does.

    `format_name` is the format of the model's calls, ``None`` where it is not known; `opens_thought` says that
    the prompt ends inside a thought, which a grammar would take for the answer.

    Raises:
        BadRequest: the prompt opens a thought, the call that is to be forced cannot be written in this format, or
            the model's answers are not their text alone.
    """
    if request.constraint is None and not request.forced_tools:
        return None
    if opens_thought:
        what = "a forced tool_choice" if request.forced_tools else "response_format or structured_outputs"
        raise BadRequest(
            f"{what} would bind the model's thought, which the prompt opens, and not its answer: turn thinking off "
            'with chat_template_kwargs, such as {"enable_thinking": false}, where the model can do without',
            param="chat_template_kwargs",
        )
    if request.constraint is not None:
        if format_name is None and len(tokenizer.encode(_CHANNEL, add_special_tokens=False)) == 1:
            raise BadRequest(
                "response_format and structured_outputs: this model wraps its answers, and cannot be bound"
            )
        return request.constraint
    form = _FORMS.get(format_name or "")
    if form is None:
        raise BadRequest('tool_choice: calls of this model cannot be forced, use "auto"', param="tool_choice")
    calls = [_call(form, name, _schema(request, name), tokenizer) for name in request.forced_tools]
    tag = {"type": "structural_tag", "format": {"type": "or", "elements": calls} if len(calls) > 1 else calls[0]}
    return {"structural_tag": json.dumps(tag, ensure_ascii=False)}


def ends_in_thought(prompt_ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Whether a prompt ends where a thought begins, as far as that can be seen without knowing the model's format."""
    return _OPEN_THOUGHT.search(tokenizer.decode(prompt_ids[-_TAIL_IDS:])) is not None


def _schema(request: TurnRequest, name: str) -> JsonObject:
    """What the arguments of a tool must be: an object, whether its schema says so or not."""
    functions = (cast(JsonObject, tool["function"]) for tool in request.tools)
    parameters = next(function.get("parameters") for function in functions if function["name"] == name)
    return {"type": "object", **cast(JsonObject, parameters or {})}


def _call(form: _CallForm, name: str, schema: JsonObject, tokenizer: Tokenizer) -> JsonObject:
    if not form.name_is_json and not _BARE_NAME.fullmatch(name):
        raise BadRequest(
            f"tool_choice: this model cannot write a call of a tool named {name!r:.80}", param="tool_choice"
        )
    written = json.dumps(name, ensure_ascii=False) if form.name_is_json else name
    arguments = {
        "type": "json_schema",
        "json_schema": schema,
        "style": form.style,
        "max_whitespace_cnt": _MAX_WHITESPACE,
    }
    opener = [*_pieces(form.before, tokenizer), _text(written + form.between)]
    return {"type": "sequence", "elements": [*opener, arguments, *_pieces(form.after, tokenizer)]}


def _pieces(text: str, tokenizer: Tokenizer) -> list[JsonObject]:
    """The text in pieces, its markers as the tokens that they are; one that is no token is text like the rest."""
    pieces = []
    for piece in filter(None, _MARKER.split(text)):
        ids = tokenizer.encode(piece, add_special_tokens=False) if _MARKER.fullmatch(piece) else []
        # By id: by its text, the engine refuses a token.
        pieces.append({"type": "token", "token": ids[0]} if len(ids) == 1 else _text(piece))
    return pieces


def _text(text: str) -> JsonObject:
    return {"type": "const_string", "value": text}
