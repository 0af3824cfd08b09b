"""Completions as Qwen3 writes them, in ids that its tokenizer would not have chosen."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

IM_END = 151645
FIRST_ADDED = 151643
"""Ids from here on are markup; below it is text, which can be spelt in more than one way."""

ToolCall = tuple[str, Mapping[str, Any]]


def completion(
    tokenizer: Tokenizer, *, seed: int, content: str = "", reasoning: str | None = None, calls: Sequence[ToolCall] = ()
) -> list[int]:
    """Ids of one assistant answer up to and including ``<|im_end|>``, sampled non-canonically.

    They decode to what the model meant, and encoding that text gives other ids. A sampler produces such
    ids now and then; here every fourth token or so is spelt in two pieces.
    """
    ids = [*respell(tokenizer, canonical(tokenizer, written(content, reasoning, calls)), random.Random(seed)), IM_END]
    assert canonical(tokenizer, text_of(tokenizer, ids)) != ids, "the completion is canonical"
    return ids


def written(content: str, reasoning: str | None, calls: Sequence[ToolCall]) -> str:
    """The answer as text, laid out as Qwen3 was trained to."""
    thought = "" if reasoning is None else f"<think>\n{reasoning}\n</think>\n\n"
    blocks = [f"<tool_call>\n{json.dumps({'name': name, 'arguments': args})}\n</tool_call>" for name, args in calls]
    return thought + "\n".join([content, *blocks] if content else blocks)


def respell(tokenizer: Tokenizer, ids: Sequence[int], rng: random.Random) -> list[int]:
    """The same text with a quarter of the tokens that can be split (at least one) split in two."""
    can_split = [place for place, token in enumerate(ids) if splits(tokenizer, token)]
    chosen = set(rng.sample(can_split, max(1, len(can_split) // 4)))
    out: list[int] = []
    for place, token in enumerate(ids):
        if place in chosen:
            text = text_of(tokenizer, [token])
            cut = rng.randrange(1, len(text))
            out += canonical(tokenizer, text[:cut]) + canonical(tokenizer, text[cut:])
        else:
            out.append(token)
    assert text_of(tokenizer, out) == text_of(tokenizer, ids), "the split changed the text"
    return out


def splits(tokenizer: Tokenizer, token: int) -> bool:
    """Whether `token` is text of several characters. Only ASCII: other characters may span tokens."""
    text = text_of(tokenizer, [token])
    return token < FIRST_ADDED and text.isascii() and len(text) > 1


def canonical(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids that the tokenizer chooses for `text`."""
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def text_of(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of `ids`, markup included."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=False))
