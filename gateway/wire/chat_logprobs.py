"""Logprobs in a chat answer, in OpenAI's shape."""

from gateway.core.types import Evidence
from gateway.wire.pieces import TextOf


def encode_logprobs(evidence: Evidence, k: int, text_of: TextOf) -> dict[str, object]:
    """The `logprobs` of a choice for the ids of `evidence`, with `k` alternatives each.

    Every id has its entry, as in vLLM's own answers: those of reasoning, of markers and the stop id too. So
    the entries of a stream's chunks, joined, are those of the whole answer. Alternatives come with the most likely
    first; the sampled id is among them only if it is one of the `k` most likely. Where `k` is 20 and it is
    not, it stands in the last place, since an engine names the 19 others only.
    """
    return {"content": [_entry(evidence, position, k, text_of) for position in range(len(evidence.ids))]}


def _entry(evidence: Evidence, position: int, k: int, text_of: TextOf) -> dict[str, object]:
    likely: list[tuple[int, float]] = []
    if k:
        assert evidence.alternatives  # or the engine was asked for fewer than the client
        likely = evidence.alternatives.most_likely(position, k)
    top = [_named(token_id, logprob, text_of) for token_id, logprob in likely]
    return _named(evidence.ids[position], evidence.logprobs[position], text_of) | {"top_logprobs": top}


def _named(token_id: int, logprob: float, text_of: TextOf) -> dict[str, object]:
    text, raw = text_of(token_id)
    return {"token": text, "logprob": logprob, "bytes": list(raw)}
