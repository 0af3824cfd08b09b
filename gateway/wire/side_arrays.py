"""Side arrays as vLLM sends them beside the ids of a choice.

``sampling_mask`` comes with every event, a list of ids for each of the event's; ``routed_experts`` comes with the
last event only, as a ``.npy`` file in base64, since nothing can be said of the experts before the last id is read
or is not to be. What was not asked for is not looked at, and what an engine does not send (it says so at each
choice with ``null``) is missing for the turn, and no error.
"""

import binascii
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gateway.core.side_arrays import SideArray
from gateway.core.turn import Prompt
from gateway.core.types import token_ids
from gateway.errors import BadRequest, EngineProtocolError
from gateway.wire.arrays import read_npy

_MOST_IN_MASK = 4096
"""Ids: an event of a few masks as large as a vocabulary would hold up everybody else for half a second."""


@dataclass(frozen=True, slots=True)
class SideArraysAsked:
    """What one call asks for beside ids and logprobs."""

    names: frozenset[str] = frozenset()
    prompt_tokens: int = 0
    known_tokens: int = 0
    """Of the prompt: how many ids had been read when the turn was sampled that it extends. Of them the experts are
    known, and are not sent again by an engine that can leave them out."""

    @property
    def routed_experts_prompt_start(self) -> int:
        """The first position whose experts are wanted, by vLLM's name for it."""
        return self.known_tokens if "routed_experts" in self.names else 0


def check_top_k(top_k: int | None, names: Collection[str]) -> None:
    """Hold a request to what reading its masks may cost, where they are asked for.

    Raises:
        BadRequest: `top_k`, which bounds a mask, is too large.
    """
    if "sampling_mask" in names and top_k is not None and top_k > _MOST_IN_MASK:
        raise BadRequest(f"top_k must be at most {_MOST_IN_MASK} where sampling masks are kept", param="top_k")


def asked_of(prompt: Prompt, names: Sequence[str]) -> SideArraysAsked:
    """The side arrays `names` of what is sampled from a prompt."""
    base = prompt.base
    known = base.prompt.length + len(base.completion.ids) - 1 if base else 0
    return SideArraysAsked(frozenset(names), len(prompt.ids), known)


class SideArrays:
    """Those of one call, as they come."""

    def __init__(self, asked: SideArraysAsked) -> None:
        self.asked = asked
        self._experts: str | None = None
        self._numbers = token_ids()
        self._offsets = token_ids([0])

    @property
    def large_bytes(self) -> int:
        """What is yet to be decoded."""
        return len(self._experts or "")

    def read(self, choice: Mapping[str, object], ids: Sequence[int]) -> "list[array[int]]":
        """The lists that an event has for its `ids`, for `add`; none where the engine sends none.

        Raises:
            EngineProtocolError: they are malformed.
        """
        experts = choice.get("routed_experts")
        if "routed_experts" in self.asked.names and not isinstance(experts, str | None):
            raise EngineProtocolError("the engine sent routed_experts that are no text")
        masks = choice.get("sampling_mask")
        if "sampling_mask" not in self.asked.names or masks is None:
            return []
        if not isinstance(masks, list) or len(masks) != len(ids):
            many = len(masks) if isinstance(masks, list) else "no list of"
            raise EngineProtocolError(f"the engine sent {len(ids)} token ids but {many} sampling masks")
        return [_mask(token_id, mask) for token_id, mask in zip(ids, masks, strict=True)]

    def add(self, choice: Mapping[str, object], masks: "Sequence[array[int]]") -> None:
        """Keep what an event says."""
        if isinstance(experts := choice.get("routed_experts"), str):
            self._experts = experts
        for mask in masks:
            self._numbers.extend(mask)
            self._offsets.append(len(self._numbers))

    def of(self, length: int) -> dict[str, SideArray]:
        """The arrays of a completion of `length` ids, save what is missing in whole or in part.

        Raises:
            EngineProtocolError: the experts are malformed, or are those of other positions.
        """
        held = {}
        if "routed_experts" in self.asked.names and self._experts is not None:
            held["routed_experts"] = self._routed(self._experts, length)
        if "sampling_mask" in self.asked.names and len(self._offsets) == length + 1:
            numbers = self._numbers.tobytes()
            held["sampling_mask"] = SideArray(0, "<u4", (len(self._numbers),), numbers, self._offsets)
        return held

    def _routed(self, written: str, length: int) -> SideArray:
        try:
            dtype, shape, data = read_npy(binascii.a2b_base64(written, strict_mode=True))
        except ValueError as error:
            raise EngineProtocolError(f"the engine sent routed_experts that cannot be read: {error}") from None
        read = self.asked.prompt_tokens + length - 1
        due = read - self.asked.known_tokens
        if len(shape) != 3 or shape[0] not in (due, read) or 0 in shape[1:]:
            raise EngineProtocolError(
                f"the engine sent routed_experts of shape {shape}, not of {due} positions, layers and experts"
            )
        # Releases that do not know the first position wanted send all of them, and a turn keeps what is its own.
        held = SideArray(length - 1 - shape[0], dtype, shape, data)
        return held.part(held.end - due, held.end)


def _mask(sampled: int, mask: object) -> "array[int]":
    try:
        if not isinstance(mask, list) or not set(map(type, mask)) <= {int}:
            raise TypeError
        ids = token_ids(mask)
    except (TypeError, OverflowError):
        raise EngineProtocolError(
            f"the engine sent a sampling mask of token id {sampled} that is no list of ids"
        ) from None
    if sampled not in ids:
        raise EngineProtocolError(f"the engine sampled token id {sampled}, which its sampling mask leaves out")
    return ids
