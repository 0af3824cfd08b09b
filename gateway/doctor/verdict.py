"""What an examination comes to, in a word, a line and an exit code."""

from collections.abc import Sequence
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


def verdict_of(
    calls: int,
    turns: int,
    main_turns: int,
    beginnings: int,
    *,
    breaks: int,
    cost: tuple[int, int],
    refused: Sequence[str],
) -> Verdict:
    """The verdict on so many calls and turns, of which the longest line has `main_turns` and so many begin anew.

    `cost` is what the breaks cost in tokens, rendered anew and read again; `refused` is what errors said.
    """
    if not calls:
        what = "made no call: does it read OPENAI_BASE_URL? Else give it the URL with {base_url} among its arguments"
        return Verdict("no_call", what)
    if not turns:
        why = f": {refused[0]}" if refused else ""
        return Verdict("unanswered", f"made {_some(calls, 'call')}, of which none was answered{why}")
    if breaks:
        rendered, again = cost
        what = f"costs {rendered} prompt tokens rendered anew, {again} of which an engine reads again"
        return Verdict("breaks", f"breaks its prefix {_times(breaks)}, which {what}")
    if turns == 1:
        return Verdict("one_turn", "took one turn, which has nothing to keep: give it a task that takes several")
    if main_turns == 1:
        what = f"begins anew {_times(beginnings)} and never goes on: it sends no answer back as one"
        return Verdict("restarts", what)
    return Verdict("keeps", f"keeps its prefix: {main_turns} turns on end, each of which extends the one before")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
