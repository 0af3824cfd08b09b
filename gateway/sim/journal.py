"""What the sim was sent, and how far each answer got."""

from dataclasses import dataclass, field

from gateway.sim.personality import Json


@dataclass(slots=True)
class Entry:
    """One request to generate, as received, and how far its answer got."""

    request_id: str | None
    headers: dict[str, str]
    body: Json
    token_ids: object
    fault: str | None
    emitted: list[int] = field(default_factory=list)
    """The ids written so far."""
    finished: bool = False
    """Whether a finish reason was written."""
    disconnected: bool = False
    """Whether the client went away before that."""
    rank: int | None = None
    """The rank that served it; ``None`` when none did."""
    cached_tokens: int = 0
    """How many ids of the prompt that rank had in its prefix cache."""
    prefilled_tokens: int = 0
    """How many it had to compute."""


@dataclass(slots=True)
class Journal:
    """The latest `size` requests to generate, in order of arrival, and how many are being answered."""

    size: int = 10_000
    entries: list[Entry] = field(default_factory=list)
    running: int = 0

    def add(self, entry: Entry) -> None:
        """Note a request; the oldest makes room."""
        self.entries.append(entry)
        del self.entries[: -self.size]
