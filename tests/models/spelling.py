"""How models of a family write what they say, and the many ways in which that is not how a template would write it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from gateway.render.protocol import Tokenizer
from tests.models.stories import Beat, Said

Json = Callable[[object], str]


@dataclass(frozen=True, slots=True)
class Spelling:
    """What of an answer is the family's: `calls` writes names and arguments, `joint` stands before them behind a text."""

    close: str
    calls: Callable[[Sequence[tuple[str, Mapping[str, object]]], Json], str]
    joint: str = ""
    thought: tuple[str, str] = ("<think>\n", "\n</think>\n\n")

    def text(self, said: Said, write: Json) -> str:
        """An answer without its close."""
        before, after = self.thought
        thought = "" if said.thought is None else f"{before}{said.thought}{after}"
        if not said.calls:
            return thought + said.content
        return thought + said.content + (self.joint if said.content else "") + self.calls(said.calls, write)


def canonical(value: object) -> str:
    """JSON as most templates write it."""
    return json.dumps(value, ensure_ascii=False)


def hermes(calls: Sequence[tuple[str, Mapping[str, object]]], write: Json) -> str:
    """Qwen3's."""
    return "\n".join(
        f'<tool_call>\n{{"name": {write(name)}, "arguments": {write(given)}}}\n</tool_call>' for name, given in calls
    )


def fenced(calls: Sequence[tuple[str, Mapping[str, object]]], write: Json) -> str:
    """DeepSeek-V3's."""
    written = "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{write(given)}\n```<｜tool▁call▁end｜>"
        for name, given in calls
    )
    return f"<｜tool▁calls▁begin｜>{written}<｜tool▁calls▁end｜>"


def separated(calls: Sequence[tuple[str, Mapping[str, object]]], write: Json) -> str:
    """DeepSeek-V3.1's."""
    written = "".join(
        f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{write(given)}<｜tool▁call▁end｜>" for name, given in calls
    )
    return f"<｜tool▁calls▁begin｜>{written}<｜tool▁calls▁end｜>"


def dsml(calls: Sequence[tuple[str, Mapping[str, object]]], write: Json) -> str:
    """DeepSeek-V4's."""

    def parameter(name: str, value: object) -> str:
        is_text = isinstance(value, str)
        text = value if is_text else write(value)
        return f'<｜DSML｜parameter name="{name}" string="{str(is_text).lower()}">{text}</｜DSML｜parameter>\n'

    written = "\n".join(
        f'<｜DSML｜invoke name="{name}">\n{"".join(parameter(*one) for one in given.items())}</｜DSML｜invoke>'
        for name, given in calls
    )
    return f"\n\n<｜DSML｜tool_calls>\n{written}\n</｜DSML｜tool_calls>"


QWEN3 = Spelling("<|im_end|>", hermes, "\n")
DEEPSEEK_V3 = Spelling("<｜end▁of▁sentence｜>", fenced)
DEEPSEEK_V31 = Spelling("<｜end▁of▁sentence｜>", separated)
DEEPSEEK_V4 = Spelling("<｜end▁of▁sentence｜>", dsml, thought=("<think>", "</think>"))
LLAMA3 = Spelling("<|eot_id|>", hermes)
GEMMA3 = Spelling("<end_of_turn>", hermes)


@dataclass(frozen=True, slots=True)
class Sampled:
    """A completion, and whether it was cut short."""

    ids: list[int]
    truncated: bool


class Pen:
    """Writes the answers of stories in one family's way, in tokens."""

    def __init__(self, spelling: Spelling, tokenizer: Tokenizer, stop_ids: Sequence[int]) -> None:
        self._spelling = spelling
        self._tokenizer = tokenizer
        (self._close,) = self._ids(spelling.close)
        self._others = [token_id for token_id in stop_ids if token_id != self._close] or [self._close]

    def write(self, beat: Beat, noise: Random) -> Sampled:
        """What the engine samples."""
        write = _respelt(noise) if beat.oddity == "respelt" else canonical
        text = self._spelling.text(beat.said, write)
        if beat.oddity == "spaced":
            text = noise.choice(("\n", " ", "")) + text + noise.choice((" ", "\n\n", "\t"))
        ids = self._ids(text)
        match beat.oddity:
            case "truncated":
                return Sampled(ids[: noise.randrange(1, len(ids))] if len(ids) > 1 else ids or self._ids("I"), True)
            case "split":
                ids = [part for token_id in ids for part in self._split(token_id, noise)]
            case "closed_early":
                ids = self._with_close(ids, noise)
            case "run_on":
                return Sampled(self._with_close(ids, noise), True)
            case "other_stop":
                return Sampled([*ids, noise.choice(self._others)], False)
            case _:
                pass
        return Sampled([*ids, self._close], False)

    def _with_close(self, ids: list[int], noise: Random) -> list[int]:
        at = noise.randrange(len(ids) + 1)
        return [*ids[:at], self._close, *self._ids(noise.choice(("\nfoo", "foo"))), *ids[at:]]

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _split(self, token_id: int, noise: Random) -> list[int]:
        """The token as two, where that says the same; one in five."""
        if noise.random() > 0.2:
            return [token_id]
        text = self._tokenizer.decode([token_id])
        if len(text) < 2:
            return [token_id]
        at = noise.randrange(1, len(text))
        parts = self._ids(text[:at]) + self._ids(text[at:])
        return parts if self._tokenizer.decode(parts) == text else [token_id]


def _respelt(noise: Random) -> Json:
    def write(value: object) -> str:
        if isinstance(value, dict) and noise.random() < 0.5:
            value = dict(sorted(value.items(), reverse=True))
        gap = noise.choice((None, 1))
        ends = noise.choice(((",", ":"), (" , ", " : ")))
        return json.dumps(value, ensure_ascii=noise.random() < 0.5, indent=gap, separators=ends)

    return write
