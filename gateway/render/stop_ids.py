"""The ids that end an answer: found out by what is written behind one, and where the first of them stands."""

from collections.abc import Callable, Collection, Sequence
from itertools import chain, takewhile
from typing import Any

from gateway.errors import RendererError
from gateway.render.protocol import MessageDict, MessageDicts
from gateway.render.shape import MARKS
from gateway.render.trial import ASKED, RESULT


def length_to_stop(token_ids: Sequence[int], stop_ids: Collection[int]) -> int:
    """How many ids come before the first stop id; all of them where there is none."""
    return next((at for at, token_id in enumerate(token_ids) if token_id in stop_ids), len(token_ids))


def discovered_stop_ids(
    tokenizer: Any,  # one of transformers, whose own types are wider than what is called here
    write: Callable[[MessageDicts], Sequence[int] | None],
) -> list[int]:
    """The end of text, and the control token that comes first behind an answer, whoever speaks next.

    That may be the token in which the next message begins, as in GLM's templates. `write` gives the ids of a history,
    and ``None`` where it is refused: a template need not know results.

    Raises:
        RendererError: there is none.
    """
    control = set(tokenizer.all_special_ids) | set(tokenizer.get_added_vocab().values())
    closes = [_close_before(write, next_one, control) for next_one in (ASKED, RESULT)]
    found = [*chain.from_iterable(closes), tokenizer.eos_token_id]
    stop_ids = list(dict.fromkeys(token_id for token_id in found if token_id is not None))
    if not stop_ids:
        raise RendererError("the tokenizer has no eos token, and its chat template shows none")
    return stop_ids


def _close_before(
    write: Callable[[MessageDicts], Sequence[int] | None], next_one: MessageDict, control: set[int]
) -> list[int]:
    answers: list[MessageDict] = [{"role": "assistant", "content": mark} for mark in MARKS]
    one, other = (write([ASKED, answer, next_one]) for answer in answers)
    if one is None or other is None:
        return []
    same = takewhile(lambda pair: pair[0] == pair[1], zip(reversed(one), reversed(other), strict=False))
    return [token_id for token_id, _ in same if token_id in control][-1:]
