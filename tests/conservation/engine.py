"""A simulated engine that notices a stop string late, as one does that looks for them after each batch."""

from dataclasses import fields, replace

from aiohttp import web

from gateway.sim import create_sim
from gateway.sim.engine import Answer, Engine, Request
from gateway.sim.keys import ENGINE

_MOST_TOKENS_LATE = 6


class LateEngine(Engine):
    """Up to so many tokens go out behind a stop string, by the length of the prompt."""

    def answers(self, request: Request) -> list[Answer]:
        """As the engine says them, with a few tokens more where a stop string ended them."""
        kept = super().answers(request)
        free = replace(request, params={name: value for name, value in request.params.items() if name != "stop"})
        late = len(request.prompt) % (_MOST_TOKENS_LATE + 1)
        return [
            replace(answer, tokens=whole.tokens[: len(answer.tokens) + late])
            for answer, whole in zip(kept, super().answers(free), strict=True)
        ]


def create_late_sim(**settings: object) -> web.Application:
    """A simulated engine that is one."""
    sim = create_sim(**settings)  # type: ignore[arg-type]  # it checks
    usual = sim[ENGINE]
    sim[ENGINE] = LateEngine(**{part.name: getattr(usual, part.name) for part in fields(usual)})
    return sim
