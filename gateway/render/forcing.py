"""How an answer is bound to a grammar: what the client asked for, or a tool call as the model itself would write it.

A forced call is a structural tag of xgrammar, the grammar backend that vLLM chooses by itself. Its markers are
forced by id, as single tokens, so that the parser of the model's own calls reads them; the name is one of the tools',
and the arguments follow that tool's schema in the family's own notation. Behind the call the answer ends.
"""

import json
import re
from typing import cast

from gateway.core.types import JsonObject, TurnRequest
from gateway.errors import BadRequest
from gateway.render.formats import CallForm, Format
from gateway.render.protocol import Tokenizer

_MAX_WHITESPACE = 1
"""Characters between the parts of the arguments: what these families write, and no room to wander in."""
_MARKER = re.compile(r"(</?tool_call>|<｜[^｜]*｜>|｜DSML｜)")
_CHANNEL = "<|channel|>"
"""The token with which some formats say what kind of text follows, the answer itself too."""
_BARE_NAME = re.compile(r"[^\s<>\"]+")
"""Names that can stand in a call without quotes."""


def structured_outputs(
    request: TurnRequest, form: Format | None, tokenizer: Tokenizer, *, opens_thought: bool
) -> JsonObject | None:
    """What binds the answer, as vLLM's `structured_outputs`; ``None`` where nothing does.

    `form` is how the model writes, ``None`` where that is not known.

    Raises:
        BadRequest: the prompt opens a thought, which a grammar would take for the answer; the call that is to be
            forced cannot be written in the model's format; or its answers are not their text alone.
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
        if form is None and len(tokenizer.encode(_CHANNEL, add_special_tokens=False)) == 1:
            raise BadRequest(
                "response_format and structured_outputs: this model wraps its answers, and cannot be bound"
            )
        return request.constraint
    if form is None or form.call is None:
        raise BadRequest('tool_choice: calls of this model cannot be forced, use "auto"', param="tool_choice")
    calls = [_call(form.call, name, _schema(request, name), tokenizer) for name in request.forced_tools]
    tag = {"type": "structural_tag", "format": {"type": "or", "elements": calls} if len(calls) > 1 else calls[0]}
    return {"structural_tag": json.dumps(tag, ensure_ascii=False)}


def _schema(request: TurnRequest, name: str) -> JsonObject:
    """What the arguments of a tool must be: an object, whether its schema says so or not."""
    functions = (cast(JsonObject, tool["function"]) for tool in request.tools)
    parameters = next(function.get("parameters") for function in functions if function["name"] == name)
    return {"type": "object", **cast(JsonObject, parameters or {})}


def _call(form: CallForm, name: str, schema: JsonObject, tokenizer: Tokenizer) -> JsonObject:
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
