"""Logprobs in a chat answer, against what vLLM's own chat says."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.core.alternatives import Alternatives
from gateway.core.types import Completion, FinishReason, VersionSpan, float32s, token_ids
from gateway.wire.chat_logprobs import encode_logprobs

GOLDEN = sorted((Path(__file__).parent / "golden" / "chat_logprobs").glob("*.json"))
TEXTS = {5: "five", 6: " six", 7: "<|end|>", 8: "�", 9: "née"}


def text_of(token_id: int) -> tuple[str, bytes]:
    """As a tokenizer would say it: the bytes of 8 are part of a character."""
    return TEXTS[token_id], b"\xf0\x9f" if token_id == 8 else TEXTS[token_id].encode()


def sampled(ids: list[int], logprobs: list[float], alternatives: Alternatives | None = None) -> Completion:
    """A completion of one version."""
    spans = (VersionSpan("v1", 0, len(ids)),)
    return Completion(token_ids(ids), float32s(logprobs), FinishReason.STOP, spans, alternatives)


def beside(width: int, pairs: list[tuple[int, float]]) -> Alternatives:
    """Rows of alternatives."""
    return Alternatives(width, token_ids([i for i, _ in pairs]), float32s([value for _, value in pairs]))


def content(encoded: dict[str, object]) -> Any:
    """The entries, as JSON has them."""
    assert set(encoded) == {"content"}
    return orjson.loads(orjson.dumps(encoded))["content"]


@pytest.mark.parametrize("case", [pytest.param(orjson.loads(f.read_bytes()), id=f.stem) for f in GOLDEN])
def test_ids_and_logprobs_are_shown_as_vllm_itself_shows_them(case):
    """Its answers to agents, whole and streamed, made again from what they say."""
    k, choices = case["top_logprobs"], case["choices"]
    entries = [entry for choice in choices for entry in choice["logprobs"]["content"]]
    ids = [token_id for choice in choices for token_id in choice["token_ids"]]
    told = {token_id: (entry["token"], bytes(entry["bytes"])) for token_id, entry in zip(ids, entries, strict=True)}
    pairs: list[tuple[int, float]] = []
    for token_id, entry in zip(ids, entries, strict=True):
        for shown in reversed(entry["top_logprobs"]):  # an order that has to be mended
            other = token_id if shown["token"] == entry["token"] else 200_000 + len(pairs)
            told[other] = (shown["token"], bytes(shown["bytes"]))
            pairs.append((other, shown["logprob"]))
    completion = sampled(ids, [entry["logprob"] for entry in entries], beside(k, pairs) if k else None)

    start = 0
    for choice in choices:
        end = start + len(choice["token_ids"])
        assert choice["logprobs"] == encode_logprobs(completion.evidence.part(start, end), k, told.__getitem__)
        start = end
    assert start == len(ids) == 3


def test_every_id_has_its_entry_the_stop_id_too():
    """A client can line them up with the token ids."""
    entries = content(encode_logprobs(sampled([5, 6, 7], [-1.0, -0.5, 0.0]).evidence, 0, text_of))

    assert [entry["token"] for entry in entries] == ["five", " six", "<|end|>"]
    assert [entry["logprob"] for entry in entries] == [-1.0, -0.5, 0.0]
    assert [entry["top_logprobs"] for entry in entries] == [[], [], []]


def test_bytes_are_those_of_the_token_where_its_text_cannot_tell():
    """Joined over tokens they are the answer's bytes."""
    entries = content(encode_logprobs(sampled([8, 9], [-1.0, -1.0]).evidence, 0, text_of))

    assert [entry["bytes"] for entry in entries] == [[0xF0, 0x9F], [110, 195, 169, 101]]


def test_the_most_likely_alternatives_come_first_and_no_more_than_asked_for():
    """The sampled id is the engine's first, and here the least likely."""
    row = [(5, -4.0), (6, -0.5), (9, -1.0)]
    (entry,) = content(encode_logprobs(sampled([5], [-4.0], beside(3, row)).evidence, 2, text_of))

    assert (entry["token"], entry["logprob"]) == ("five", -4.0)
    assert entry["top_logprobs"] == [
        {"token": " six", "logprob": -0.5, "bytes": list(b" six")},
        {"token": "née", "logprob": -1.0, "bytes": list("née".encode())},
    ]


def test_where_the_engine_has_no_room_for_one_more_the_sampled_id_stands_last():
    """At twenty it names the sampled id and the nineteen most likely others."""
    row = [(5, -4.0), (6, -0.5), (9, -1.0)]
    (entry,) = content(encode_logprobs(sampled([5], [-4.0], beside(3, row)).evidence, 3, text_of))

    assert [shown["token"] for shown in entry["top_logprobs"]] == [" six", "née", "five"]


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_the_entries_of_a_streams_chunks_are_those_of_the_whole(cut, k):
    """Wherever it is cut."""
    rows = [(5, -4.0), (6, -0.5), (6, -0.1), (7, -3.0), (9, -1.0), (8, -2.0)]
    completion = sampled([5, 6, 9], [-4.0, -0.1, -1.0], beside(2, rows))

    head = content(encode_logprobs(completion.evidence.part(0, cut), k, text_of))
    tail = content(encode_logprobs(completion.evidence.part(cut, 3), k, text_of))

    assert content(encode_logprobs(completion.evidence, k, text_of)) == head + tail
    assert len(head) == cut
