"""What an examination comes to, in a word, a line and an exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Name = Literal["keeps", "breaks", "restarts", "one_turn", "unanswered", "no_call"]

EXIT_CODES: dict[Name, int] = {"keeps": 0, "breaks": 1, "restarts": 1, "one_turn": 3, "unanswered": 3, "no_call": 3}


class Verdict(NamedTuple):
    """A judgement."""

    name: Name
    summary: str

    @property
    def exit_code(self) -> int:
        """Of the command, where the agent itself ended well."""
        return EXIT_CODES[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a verdict hangs on."""

    calls: int
    failed: bool
    """Whether the agent ended otherwise than well."""
    turns: int
    """Complete ones."""
    main_turns: int
    """Of the longest line."""
    beginnings: int
    """Turns that begin anew."""
    breaks: int
    """By the harness."""
    breaks_by_renderer: int
    rendered_tokens: int
    """Of all breaks, as is `reprefilled_tokens`."""
    reprefilled_tokens: int
    refused: Sequence[str]
    """What errors said."""


def verdict_of(found: Findings) -> Verdict:
    """The verdict on what was found."""
    if not found.calls and found.failed:
        return Verdict("no_call", "failed before it made a call: what it printed says why")
    if not found.calls:
        what = "made no call: does it read OPENAI_BASE_URL? Else give it the URL with {base_url} among its arguments"
        return Verdict("no_call", what)
    if not found.turns:
        why = f": {found.refused[0]}" if found.refused else ""
        return Verdict("unanswered", f"made {_some(found.calls, 'call')}, of which none was answered{why}")
    again = f"{found.reprefilled_tokens} of which an engine reads again"
    cost = f"{found.rendered_tokens} prompt tokens rendered anew, {again}"
    if found.breaks:
        return Verdict("breaks", f"breaks its prefix {_times(found.breaks)}, which costs {cost}")
    if found.turns == 1:
        return Verdict("one_turn", "took one turn, which has nothing to keep: give it a task that takes several")
    if found.main_turns == 1:
        what = f"begins anew {_times(found.beginnings)} and never goes on: it sends no answer back as one"
        return Verdict("restarts", what)
    if found.breaks_by_renderer:
        what = f"the renderer cannot go on from its answers {_times(found.breaks_by_renderer)}, which costs {cost}"
        return Verdict("keeps", f"keeps its prefix over {found.main_turns} turns; {what}")
    return Verdict("keeps", f"keeps its prefix: {found.main_turns} turns on end, each of which extends the one before")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
