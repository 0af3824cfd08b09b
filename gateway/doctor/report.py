"""What is to be said of a harness: made of its turns, for people and for programs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.core.fate import fates, moment_of
from gateway.core.ledger import Ledger
from gateway.core.segments import Segments, SessionAt
from gateway.core.selection import Selection
from gateway.core.types import JsonObject
from gateway.doctor.agent import End
from gateway.doctor.changes import changes_above, changes_within
from gateway.doctor.excerpt import cut, excerpts
from gateway.doctor.harmless import finishes, may_call
from gateway.doctor.lines import LINEAGE, Line, Step, lines_beside, main_line
from gateway.doctor.outcomes import OUTCOMES, Outcomes
from gateway.doctor.recorder import Call
from gateway.doctor.verdict import Findings, Verdict, verdict_of


@dataclass(frozen=True, slots=True)
class Examination:
    """All that was seen of one agent."""

    command: Sequence[str]
    model: str
    simulated: bool
    end: End
    calls: Sequence[Call]
    steps: Sequence[Step]
    """The complete turns."""
    ledgers: Sequence[Ledger]
    allowed_tools: frozenset[str] = frozenset()


class Report:
    """An examination, judged."""

    def __init__(self, seen: Examination) -> None:
        self.seen = seen
        self.main = main_line(seen.steps)
        self.beside = lines_beside(seen.steps, self.main)
        self.side_lines = [line for line in self.beside if _stands_apart(line)]
        apart = {line.first for line in self.side_lines}
        self.breaks = [step for step in seen.steps if step.breaks and step not in apart]
        self.dropped = _dropped(seen)
        outcomes = Outcomes(seen.ledgers)
        self.outcomes = Counter(outcomes.of(call) for call in seen.calls)
        self.refusals = Counter(outcomes.error(call) for call in seen.calls if not outcomes.is_good(call))
        costs = [step.cost for step in self.breaks]
        self.rendered_tokens, self.reprefilled_tokens = sum(c[0] for c in costs), sum(c[1] for c in costs)

    @property
    def reused(self) -> tuple[int, int]:
        """Prompt ids that were taken over, and all."""
        steps = self.seen.steps
        return sum(step.reused_tokens for step in steps), sum(step.turn.prompt_length for step in steps)

    @property
    def rows(self) -> int:
        """How many rows a trainer gets."""
        whole = (SessionAt(ledger, moment_of(ledger), {}) for ledger in self.seen.ledgers)
        return sum(len(Segments(source, Selection(), None).leaves) for source in whole)

    @property
    def aborted(self) -> Counter[str]:
        """Turns without an end, by why."""
        turns = (turn for ledger in self.seen.ledgers for turn in ledger.turns)
        return Counter(turn.ended_by for turn in turns if turn.status == "aborted")

    @property
    def verdict(self) -> Verdict:
        """What it all comes to."""
        by = Counter(step.by for step in self.breaks)
        found = Findings(
            calls=len(self.seen.calls),
            failed=not self.seen.end.well,
            turns=len(self.seen.steps),
            main_turns=len(self.main),
            beginnings=sum(step.before is None for step in self.seen.steps),
            breaks=by["harness"],
            breaks_by_renderer=by["renderer"],
            rendered_tokens=self.rendered_tokens,
            reprefilled_tokens=self.reprefilled_tokens,
            refused=[f"{path}: {text or status}" for status, path, text in self.refusals],
        )
        return verdict_of(found)

    @property
    def exit_code(self) -> int:
        """Of the command: `docs/doctor.md` says which means what."""
        return 4 if not self.seen.end.well else self.verdict.exit_code

    def accepted(self) -> list[JsonObject]:
        """The differences that were accepted, by kind, each with its first case."""
        found: dict[str, JsonObject] = {}
        answers = Counter[str]()
        for step in self.seen.steps:
            for one in step.differences:
                for kind in one.kinds if one.change == "accepted" else ():
                    answers[kind] += 1
                    before, after = excerpts(one.before, one.after)
                    shown = {"turn": step.number, "message": one.position, "before": before, "after": after}
                    found.setdefault(kind, shown)
        return [{"kind": kind, "answers": answers[kind], **shown} for kind, shown in sorted(found.items())]

    def tools(self) -> JsonObject | None:
        """Which tools the simulated model called, and which it let alone, since they may change something."""
        if not self.seen.simulated:
            return None
        called = {call.name for step in self.seen.steps for call in step.turn.message.tool_calls}
        offered = {str(tool["name"]): tool for step in self.seen.steps for tool in _tools(step)}
        shunned = {name for name, tool in offered.items() if not may_call(tool, self.seen.allowed_tools)}
        alone = {name for name in shunned - called if not finishes(name)}
        return {"called": sorted(called), "left_alone": sorted(alone)}

    def as_object(self) -> JsonObject:
        """As ``--json`` prints it: `docs/doctor.schema.json`."""
        end, (reused, prompts) = self.seen.end, self.reused
        return {
            "verdict": self.verdict.name,
            "summary": self.verdict.summary,
            "exit_code": self.exit_code,
            "agent": {
                "command": [word.encode(errors="replace").decode() for word in self.seen.command],
                "ended": end.how,
                "exit_code": end.exit_code,
                "seconds": round(end.seconds, 3),
            },
            "model": self.seen.model,
            "simulated": self.seen.simulated,
            "calls": {name: self.outcomes[name] for name in OUTCOMES},
            "retries": sum(call.marked for call in self.seen.calls),
            "turns": len(self.seen.steps),
            "main_line": [step.number for step in self.main],
            "aborted_turns": dict(self.aborted),
            "dropped_answers": self.dropped,
            "rows": self.rows,
            "completion_tokens": sum(len(step.turn.completion.ids) for step in self.seen.steps),
            "prompt_tokens": prompts,
            "reused_tokens": reused,
            "reused_share": round(reused / prompts, 4) if prompts else None,
            "rendered_tokens": self.rendered_tokens,
            "reprefilled_tokens": self.reprefilled_tokens,
            "breaks": [_break(step) for step in self.breaks],
            "accepted": self.accepted(),
            "side_lines": [self._side_line(line) for line in self.side_lines],
            "errors": [
                {"status": status, "path": path, "message": text, "calls": calls}
                for (status, path, text), calls in self.refusals.items()
            ],
            "tools": self.tools(),
        }

    def _side_line(self, line: Line) -> JsonObject:
        first = line.first
        return {
            "turn": first.number,
            "turns": len(line.steps),
            "reason": first.turn.reason,
            "after_turn": first.before.number if first.before else None,
            "prompt_tokens": sum(step.turn.prompt_length for step in line.steps),
            "rendered_tokens": first.cost[0],
            "main_line_went_on": bool(self.main) and self.main[-1].number > line.steps[-1].number,
            "asks": cut(first.request.messages[-1].content),
            "tools": len(first.request.tools),
            "above": changes_above(first),
        }


def _stands_apart(line: Line) -> bool:
    """Whether a line is something else than the main one: a title, a summary, a sub-agent, another task.

    Others come of answers that were dropped or sampled again, and of histories that were rewritten.
    """
    return line.first.before is None or line.first.turn.reason in LINEAGE


def _dropped(seen: Examination) -> list[int]:
    """The turns whose answers the harness did not keep."""
    told = [(set(ledger.turns), fates(ledger)) for ledger in seen.ledgers]
    return [step.number for step in seen.steps for own, fate in told if step.turn in own and fate(step.turn).dropped]


def _break(step: Step) -> JsonObject:
    rendered, reprefilled = step.cost
    return {
        "turn": step.number,
        "after_turn": step.before.number if step.before else None,
        "reason": step.turn.reason,
        "by": step.by,
        "rendered_tokens": rendered,
        "reprefilled_tokens": reprefilled,
        "messages": changes_within(step),
        "above": changes_above(step),
    }


def _tools(step: Step) -> list[dict[str, object]]:
    functions = (tool.get("function") for tool in step.request.tools)
    return [dict(function) for function in functions if isinstance(function, dict)]
