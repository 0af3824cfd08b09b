"""How much one session may use up, and what that leaves to its next answer."""

from dataclasses import dataclass

from gateway.core.types import Bound
from gateway.errors import ContextLengthExceeded, TooManyRequests


@dataclass(frozen=True, slots=True)
class Spent:
    """What a session has used up. Its complete turns count as turns; tokens count for aborted ones too."""

    turns: int = 0
    aborted_turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """How long an answer may be."""

    tokens: int
    bound: Bound
    """What does not let it be longer; of several that leave equally much, the agent's word, then the session's."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The bounds of one session; ``None`` is no bound."""

    max_context_tokens: int | None = None
    """Prompt and completion of one answer together: a window smaller than the model's."""
    max_completion_tokens: int | None = None
    """Sampled tokens of all turns together. Answers sampled side by side each get what was left before them."""
    max_turns: int | None = None
    """Complete turns, and those in flight."""

    def over(self, defaults: "Budget") -> "Budget":
        """The bounds of this budget, and those of `defaults` where it has none."""
        return Budget(
            _first(self.max_context_tokens, defaults.max_context_tokens),
            _first(self.max_completion_tokens, defaults.max_completion_tokens),
            _first(self.max_turns, defaults.max_turns),
        )

    def admit(self, spent: Spent, *, in_flight: int, n: int) -> None:
        """Let a call for `n` answers begin, beside `in_flight` others.

        Raises:
            TooManyRequests: the turns, or the completion tokens, do not suffice for all of them.
        """
        if self.max_turns is not None and spent.turns + in_flight + n > self.max_turns:
            taken = f"{spent.turns} are taken, {in_flight} in flight"
            raise _too_many(f"{self.max_turns} turns", self.max_turns - spent.turns - in_flight, taken, n)
        self._completion_room(spent, n)

    def window(self, model_tokens: int) -> int:
        """The context that a session has in a model's."""
        return model_tokens if self.max_context_tokens is None else min(model_tokens, self.max_context_tokens)

    def limit(self, spent: Spent, *, model_tokens: int, prompt_tokens: int, asked: int | None, n: int) -> Limit:
        """How many tokens one of `n` answers may have, which is at least one, and why no more.

        Raises:
            ContextLengthExceeded: the prompt leaves no room in the model's context, or in the session's.
            TooManyRequests: the completion tokens are used up.
        """
        window = self.window(model_tokens)
        if window <= prompt_tokens:
            whose = "the model's context" if window == model_tokens else "the context that this session may use"
            raise ContextLengthExceeded(f"the prompt of {prompt_tokens} tokens leaves no room in {whose}: {window}")
        bounds: dict[Bound, int | None] = {
            "max_tokens": asked,
            "budget": _least(
                self._completion_room(spent, n), None if window == model_tokens else window - prompt_tokens
            ),
            "context": model_tokens - prompt_tokens,
        }
        return min((Limit(tokens, bound) for bound, tokens in bounds.items() if tokens is not None), key=_tokens)

    def _completion_room(self, spent: Spent, n: int) -> int | None:
        """What is left to each of `n` answers."""
        if self.max_completion_tokens is None:
            return None
        room = (self.max_completion_tokens - spent.completion_tokens) // n
        if room < 1:
            left = self.max_completion_tokens - spent.completion_tokens
            used = f"{spent.completion_tokens} of {self.max_completion_tokens} are taken"
            raise _too_many("completion tokens", left, used, n)
        return room


def _too_many(what: str, left: int, taken: str, n: int) -> TooManyRequests:
    if left <= 0:
        return TooManyRequests(f"the session's budget of {what} is used up: {taken}")
    return TooManyRequests(f"the session's budget of {what} does not suffice for n={n} answers: {taken}, {left} left")


def _first(given: int | None, default: int | None) -> int | None:
    return default if given is None else given


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _tokens(limit: Limit) -> int:
    return limit.tokens
