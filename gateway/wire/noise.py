"""Noise: what clients put around a history that is no part of it, and that changes from turn to turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from gateway.core.types import JsonObject

USUAL_PREFIXES = ("x-anthropic-billing-header:",)
"""It stands before all else in the prompt, and is another one in each sub-agent and after each compaction."""
USUAL_KEYS = ("cache_control",)
"""Moves through the history as it grows."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What a dialect leaves out of a request before anything is matched or rendered."""

    prefixes: tuple[str, ...] = USUAL_PREFIXES
    """How system text begins that is noise."""
    keys: tuple[str, ...] = USUAL_KEYS
    """Fields of a tool that are noise; of messages and their parts only fields that mean something are read."""

    def silenced(self, said: str | Sequence[str]) -> str:
        """What a system message says apart from noise; empty when it says nothing else.

        Of parts, each that begins as noise goes as a whole, since the client said where it ends. Of one text the
        lines at its head go and no more: where a client has joined the blocks, what follows is instruction.
        """
        if not isinstance(said, str):
            return "".join(text for text in said if not text.startswith(self.prefixes))
        while said.startswith(self.prefixes):
            said = said.partition("\n")[2].lstrip("\n")
        return said

    def tool(self, tool: JsonObject) -> JsonObject:
        """A tool without noise in itself and in its function. Inside of its schema every name is the agent's own."""
        function = tool.get("function")
        kept = self._kept(tool)
        if isinstance(function, Mapping) and "function" in kept:
            return {**kept, "function": self._kept(cast(JsonObject, function))}
        return kept

    def _kept(self, fields: JsonObject) -> JsonObject:
        return {key: value for key, value in fields.items() if key not in self.keys}


USUAL = Noise()
"""What is known of the clients of today."""
