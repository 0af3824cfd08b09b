"""How the answers of a model are read of which nothing is known but its tokenizer: what its template shows when tried.

A call in a small history is rendered, and each known way to write calls is tried on what the template made of it. One
that gives the call back, and nothing else, is how this model writes. So no format is guessed by a name.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.render.call_style import USUAL, CallStyle
from gateway.render.chat_template import template_text
from gateway.render.formats import CALL_FORMATS, FORMATS, Format, Mark
from gateway.render.markers import Markers
from gateway.render.parsed import Parsed
from gateway.render.protocol import MessageDict, MessageDicts, Tokenizer
from gateway.render.response_template import read_answer, tells_calls, template_of
from gateway.render.stream_parser import TokenParser
from gateway.render.thoughts import THOUGHTS
from gateway.render.token_text import token_texts
from gateway.render.trial import ASKED, CALL_IDS, GIVEN, LOOK, RESULT, SAID, calling, learn_style

TOOL_FORMATS: Mapping[str, Format] = {**CALL_FORMATS, **FORMATS}
"""What ``--tool-format`` can name."""

_TEXT_ONLY = Format((), lambda body, tools: None, None, {})  # noqa: ARG005  # one signature for all
_SAID = f"{SAID} said"
_IDS = (CALL_IDS, ("functions.look:0", "functions.look:1"))
"""As Kimi's write them, too, where the name of the function would be."""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """How the answers of a model are read."""

    name: str
    """A key of `TOOL_FORMATS`, ``response template``, or ``text only``."""
    why: str
    """How that was found, for whoever runs the gateway."""
    tokenizer: Tokenizer
    form: Format | None = None
    """What the one reader reads by; ``None`` where the tokenizer's own response template is asked."""
    takes_tools: bool = True
    """Whether it is known how calls are written. Else requests with tools must be refused."""
    call_style: CallStyle = USUAL
    """In which style the template takes answers with calls."""

    @property
    def refusal(self) -> str:
        """What a request with tools is answered."""
        known = ", ".join(TOOL_FORMATS)
        return (
            f"tools: it is not known how this model writes tool calls ({self.why}), so they could not be read; whoever "
            f"runs this gateway can say how, with --tool-format and one of {known}. Without tools it serves"
        )


class AnswerReader:
    """Reads whole answers, in the shape of `gateway.render.protocol.Renderer.parse_response`; to be made once."""

    def __init__(self, answers: AnswerFormat, stop_ids: Collection[int]) -> None:
        self._tokenizer, self._stop_ids = answers.tokenizer, frozenset(stop_ids)
        self.markers = Markers(answers.form, answers.tokenizer, self._stop_ids) if answers.form else None
        """What streams are read by; ``None`` where answers can only be read as a whole."""

    def read(
        self, token_ids: Sequence[int], tools: MessageDicts | None = None, prompt_ids: Sequence[int] | None = None
    ) -> Parsed:
        """The message that a completion says."""
        if self.markers is None:
            said, asked = self._stop_ids, prompt_ids or ()
            return read_answer(self._tokenizer, token_ids, stop_ids=said, tools=tools, prompt_ids=asked)
        parser = TokenParser(self.markers, tools, prompt_ids=prompt_ids or ())
        parser.feed(token_ids)
        return parser.finish()


def answer_format(tokenizer: Tokenizer, tool_format: str | None, template_kwargs: JsonObject) -> AnswerFormat:
    """How answers are read: as `tool_format` says, else as the tokenizer does, else as its template writes.

    Raises:
        ConfigError: there is no such format, or it needs tokens that the tokenizer has not; or the template wraps
            answers in a way that none of the formats knows.
    """
    trial = _Trial(tokenizer, template_kwargs)
    made = partial(AnswerFormat, tokenizer=tokenizer, call_style=trial.call_style)
    if tool_format is not None:
        return made(tool_format, "--tool-format says so", form=trial.framed(_named(tool_format, trial)))
    template = template_of(tokenizer)
    if template is not None:
        return made("response template", "the tokenizer comes with one", takes_tools=tells_calls(template))
    found = trial.found()
    if found is not None:
        return made(found, "its template writes calls so", form=trial.framed(CALL_FORMATS[found]))
    form = trial.framed(_TEXT_ONLY)
    if not trial.reads_text(form):
        raise ConfigError(
            f"model {tokenizer.name_or_path!r}: its chat template wraps answers in a way that is not known here, so "
            "they could not be told from their markers: use --renderer prime where that knows the model, bring a "
            "renderer with --renderer module:factory, or say how answers are written with --tool-format"
        )
    return made("text only", trial.why_not, form=form, takes_tools=False)


def _named(name: str, trial: "_Trial") -> Format:
    form = TOOL_FORMATS.get(name)
    if form is None:
        raise ConfigError(f"--tool-format {name}: must be one of {', '.join(TOOL_FORMATS)}")
    missing = trial.missing(form)
    if missing:
        raise ConfigError(f"--tool-format {name}: the tokenizer of this model has no {missing[0]}")
    return form


class _Trial:
    """A template, tried on small histories."""

    def __init__(self, tokenizer: Any, template_kwargs: JsonObject) -> None:  # with transformers' apply_chat_template
        self._tokenizer, self._template_kwargs = tokenizer, template_kwargs
        self._vocabulary = token_texts(tokenizer).vocabulary
        self._added: dict[int, str] = {
            token_id: str(token) for token_id, token in getattr(tokenizer, "added_tokens_decoder", {}).items()
        }
        self.call_style = learn_style(self._text)
        self._thought = self._thought_marks()
        self._headers = tuple(dict.fromkeys(filter(None, map(self._header, self._prompts()))))
        self._plain = self._answer({"role": "assistant", "content": _SAID}, None)
        self._close = (self._plain or "").partition(_SAID)[2]

    @property
    def why_not(self) -> str:
        """Why no format was found."""
        if self._plain is None:
            return "it has no chat template that could be tried"
        writes = any(self._call_text(ids[:1]) for ids in _IDS)
        return "its template writes them in no way that is known here" if writes else "its template writes none"

    def missing(self, form: Format) -> list[str]:
        """The tokens that a format needs and the tokenizer has not; those of thoughts may be others."""
        needed = (text for text, mark in form.tokens.items() if mark not in (Mark.THINK, Mark.THINK_END))
        return [text for text in needed if text not in self._vocabulary]

    def framed(self, form: Format) -> Format:
        """A way to write calls, with the headers and the thoughts of this model. Nothing else reads its answers."""
        calls = {text: mark for text, mark in form.tokens.items() if mark not in (Mark.THINK, Mark.THINK_END)}
        texts = {text: mark for text, mark in form.texts.items() if mark not in (Mark.THINK, Mark.THINK_END)}
        headers = self._headers or form.headers
        return replace(form, headers=headers, tokens=calls, texts={**texts, **self._thought}, compared_ids=0)

    def found(self) -> str | None:
        """The first format that reads a call that the template has written, and two in an answer if it writes two."""
        return next(filter(None, (self._found(*map(self._call_text, (ids[:1], ids))) for ids in _IDS)), None)

    def _found(self, one: str | None, two: str | None) -> str | None:
        for name, form in CALL_FORMATS.items():
            if one is None or self.missing(form) or not _opens_call(form, one):
                continue
            framed = self.framed(form)
            reads_two = two is None or self._reads_calls(two, framed, 2)
            if reads_two and self._reads_calls(one, framed, 1) and self.reads_text(framed):
                return name
        return None

    def reads_text(self, form: Format) -> bool:
        """Whether an answer that is text is that text and nothing else; true where no template can be tried."""
        if self._plain is None:
            return True
        readings = self._readings(self._plain, form)
        return any((said.content, said.tool_calls) == (_SAID, ()) for said in readings)

    def _reads_calls(self, text: str, form: Format, count: int) -> bool:
        due = [("look", json.loads(given)) for given in GIVEN[:count]]
        return any(
            not said.content and [(call.name, json.loads(call.arguments)) for call in said.tool_calls] == due
            for said in self._readings(text, form)
        )

    def _readings(self, text: str, form: Format) -> Iterator[Parsed]:
        """What the reader makes of an answer, and what behind a prompt that opens a thought.

        Some templates of models that always think write no more of an earlier thought than its end.
        """
        control = [token_id for token_id in self._ids(self._close) if token_id in self._added][:1]
        ends = [end for end in (getattr(self._tokenizer, "eos_token_id", None), *control) if end in self._added]
        markers = Markers(form, self._tokenizer, ends)
        for prompt in ("", "".join((*self._headers[:1], *[*self._thought][:1]))):
            parser = TokenParser(markers, [LOOK], prompt_ids=self._ids(prompt))
            parser.feed(self._ids(text))
            yield parser.finish()

    def _call_text(self, ids: Sequence[str]) -> str | None:
        """What the template makes of an answer with a call for each of these ids; ``None`` if that is not in it."""
        text = self._answer(calling(self.call_style, ids), [LOOK])
        if text is None or any(json.loads(given)["at"] not in text for given in GIVEN[: len(ids)]):
            return None
        return text.removesuffix(self._close) if self._close else text

    def _answer(self, answer: MessageDict, tools: MessageDicts | None) -> str | None:
        """What a template makes of an answer, behind the header."""
        before, whole = self._text([ASKED], tools), self._text([ASKED, answer], tools)
        if before is None or whole is None:
            return None
        if not whole.startswith(before):
            return whole[
                max((whole.rfind(header) + len(header) for header in self._headers if header in whole), default=0) :
            ]
        rest = whole[len(before) :]
        header = next((header for header in self._headers if rest.lstrip().startswith(header)), "")
        return rest.partition(header)[2] if header else rest

    def _prompts(self) -> list[MessageDicts]:
        call = calling(self.call_style, _IDS[0][:1])
        return [[ASKED], [ASKED, call, RESULT]]

    def _header(self, prompt: MessageDicts) -> str:
        """What stands where the assistant begins to speak: what opens its turn, or the last control token."""
        closed, opened = self._text(prompt, None), self._text(prompt, None, opened=True)
        if closed is None or opened is None:
            return ""
        opening = opened[len(closed) :] if opened.startswith(closed) else ""
        return self._unthinking(opening) or self._from_last_token(self._unthinking(opened))

    def _unthinking(self, text: str) -> str:
        """Without a thought that it opens at its end, be it closed again or not."""
        if not self._thought:
            return text
        opener, closer = self._thought
        head, opened, tail = text.rpartition(opener)
        return head if opened and not tail.replace(closer, "").strip() else text

    def _from_last_token(self, text: str) -> str:
        last = max((text.rfind(token) for token in self._added.values()), default=-1)
        return text[last:] if last >= 0 else ""

    def _thought_marks(self) -> Mapping[str, Mark]:
        template = json.dumps(getattr(self._tokenizer, "chat_template", None), ensure_ascii=False)
        written = [pair for pair in THOUGHTS if pair[1] in template]
        known = [pair for pair in THOUGHTS if self._vocabulary.keys() >= {*pair}]
        opened, closed = next(iter(written + known), ("", ""))
        return {opened: Mark.THINK, closed: Mark.THINK_END} if opened else {}

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _text(self, messages: MessageDicts, tools: MessageDicts | None, *, opened: bool = False) -> str | None:
        given = self._template_kwargs
        try:
            return template_text(self._tokenizer, messages, tools=tools, opened=opened, template_kwargs=given)
        except Exception:  # noqa: BLE001  # a template raises what it likes
            return None


def _opens_call(form: Format, text: str) -> bool:
    """Whether the text has a marker of this format in which a call begins."""
    marks = {**form.tokens, **form.texts}
    return any(mark in (Mark.CALL, Mark.BARE) and marker in text for marker, mark in marks.items())
