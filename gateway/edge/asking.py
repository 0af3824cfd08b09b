"""What an engine is asked in one call for an answer, and what takes its words: the first, or one that goes on."""

import secrets
from dataclasses import replace

from gateway.core.budget import Limit
from gateway.core.joining import told_of
from gateway.core.resume import continued
from gateway.core.sampling import record
from gateway.core.types import TurnRequest
from gateway.edge.choice import Choice, Plan
from gateway.edge.rank import Rank
from gateway.edge.sampling_plan import SamplingPlan
from gateway.edge.session import Session, TurnCall
from gateway.render.reading import Reading
from gateway.render.stops import StopWatch
from gateway.wire.collector import Collector
from gateway.wire.generate import encode_request


def reading_of(request: TurnRequest, plan: Plan) -> Reading:
    """What reads an answer from its beginning. A renderer is asked, so not for the event loop."""
    return Reading(plan.translator, plan.prompt.ids, request, lambda: f"call_{secrets.token_hex(12)}")


def settled_on(rank: Rank, choice: Choice, plan: Plan, session: Session, call: TurnCall) -> SamplingPlan:
    """How an answer is sampled on a rank that answers. How long it may be does not change with its calls, unless the
    window is narrower.

    Raises:
        ContextLengthExceeded, TooManyRequests: a call that begins an answer, or begins it anew, has no room, in the
            context or in the session's budget.
    """
    window, sampling = rank.engine.max_model_len, choice.request.sampling
    assert window is not None  # or it would not answer
    if choice.parts:
        limit, room_tokens = choice.parts[0].settled.limit, window - choice.prompt_tokens
        limit = limit if limit.tokens <= room_tokens else Limit(room_tokens, "context")
    else:
        limit = session.limit(
            call,
            model_tokens=window,
            prompt_tokens=choice.prompt_tokens,
            discarded_tokens=sum(len(sampled.completion.ids) for _, sampled in choice.discarded),
        )
    made = record(
        sampling,
        max_tokens=limit.tokens,
        stop_token_ids=() if sampling.ignore_eos else tuple(plan.translator.stop_ids),
        overridden=choice.request.overridden,
        constrained=plan.structured_outputs is not None,
        logprobs_mode=rank.engine.logprobs.mode,
    )
    return SamplingPlan(rank, limit, made)


def collector_of(choice: Choice, plan: Plan) -> Collector:
    """What takes the words of a call that goes on with what the answer has."""
    asked, position = plan.side_arrays, len(choice.evidence.ids)
    known = told_of([part.completion for part in choice.parts], asked.known_tokens - choice.prompt_tokens)
    prompt_tokens, known_tokens = choice.prompt_tokens + position, choice.prompt_tokens + known
    asked = replace(asked, prompt_tokens=prompt_tokens, known_tokens=known_tokens)
    return Collector(choice.request.top_logprobs, asked, choice.evidence)


def body_of(
    request: TurnRequest, choice: Choice, plan: Plan, settled: SamplingPlan, stream_interval_tokens: int
) -> bytes:
    """A call for the rest of an answer to `request`, which is the choice's with a salt."""
    position = len(choice.evidence.ids)
    return encode_request(
        [*plan.prompt.ids, *choice.evidence.ids],
        replace(request, sampling=continued(request.sampling, position)),
        max_tokens=settled.limit.tokens - position,
        stop_ids=settled.sampling.stop_token_ids,
        stream_interval_tokens=stream_interval_tokens,
        structured_outputs=plan.structured_outputs,
        version=settled.rank.engine.version,
        routed_experts_prompt_start=choice.collector.beside.asked.routed_experts_prompt_start,
        include_usage=position > 0,
    )


def completes_stop(choice: Choice, plan: Plan) -> bool:
    """Whether a stop string is in what was sampled; if not, it is looked for in what comes. Not for the event loop."""
    if not choice.evidence.ids:
        return False
    last, going_on = [
        StopWatch(plan.translator.tokenizer, choice.request.sampling, plan.translator.stop_ids) for _ in range(2)
    ]
    for each in (last, going_on):
        each.feed(choice.evidence.ids)
    last.finish()
    choice.stops = going_on
    return last.stop is not None
