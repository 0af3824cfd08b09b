"""What a vLLM server tells of itself, and what is not believed of it."""

import time

import orjson
import pytest

from gateway.core.types import JsonObject
from gateway.wire.engine_facts import (
    MOST_RANKS,
    RankFacts,
    dotted,
    read_metrics,
    read_models,
    read_refusal,
    read_server_info,
    read_version,
)


def test_models_are_named_with_their_adapters_and_the_shortest_context() -> None:
    """VLLM lists LoRA adapters beside their model, with a null for their context."""
    cards = [{"id": "base", "max_model_len": 4096}, {"id": "lora", "max_model_len": None}, {"max_model_len": 99}]
    facts = read_models(orjson.dumps({"data": [*cards, "?"]}))
    assert facts == (frozenset({"base", "lora"}), 99)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"data": []}', b'{"data": [{"max_model_len": true}]}'])
def test_what_does_not_say_its_context_is_no_vllm(body: bytes) -> None:
    """So it gets no turn."""
    with pytest.raises(ValueError, match="is this a vLLM"):
        read_models(body)


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b'{"version": "0.32.0+cpu"}', (0, 32)),
        (b'{"version": "main"}', None),
        (b'{"version": 32}', None),
        (b"{}", None),
        (b"?", None),
    ],
)
def test_a_version_is_two_numbers_or_not_known(body: bytes, version: tuple[int, int] | None) -> None:
    """Whatever stands behind them."""
    assert read_version(body) == version


@pytest.mark.parametrize(
    ("parallel", "ranks"),
    [
        ({"data_parallel_size": 4}, 4),
        ({"data_parallel_size": 4, "data_parallel_size_local": 1, "data_parallel_external_lb": True}, 1),
        ({"data_parallel_size": 4, "data_parallel_size_local": 2, "data_parallel_hybrid_lb": True}, 2),
        ({"data_parallel_size": 4, "data_parallel_size_local": 2, "data_parallel_external_lb": False}, 4),
        ({"data_parallel_size": 0}, None),
        ({"data_parallel_size": MOST_RANKS + 1}, None),
        ({"data_parallel_size": True}, None),
        ({"data_parallel_size": "2"}, None),
        ({}, None),
    ],
)
def test_the_configuration_says_how_many_ranks_a_call_can_choose_between(
    parallel: JsonObject, ranks: int | None
) -> None:
    """Those of the server itself; nonsense is not believed."""
    assert read_server_info(orjson.dumps({"vllm_config": {"parallel_config": parallel}})) == ranks


@pytest.mark.parametrize("body", [b"?", b"[]", b'{"vllm_config": "text"}', b'{"vllm_config": {"parallel_config": []}}'])
def test_what_is_no_configuration_says_nothing(body: bytes) -> None:
    """It may be that of another server, or text."""
    assert read_server_info(body) is None


@pytest.mark.parametrize(
    ("message", "ranks"),
    [
        ("data_parallel_rank 1000000 is out of range [0, 8).", 8),
        ("data_parallel_rank 1000000 is out of range [0, 0).", None),
        ("data_parallel_rank 1000000 is out of range [0, 1025).", None),
        (f"data_parallel_rank 1000000 is out of range [0, {'9' * 5000}).", None),
        ("scale-out is off", None),
    ],
)
def test_a_refusal_says_how_many_ranks_there_are(message: str, ranks: int | None) -> None:
    """As vLLM words it since 0.22."""
    assert read_refusal(message) == ranks


def metrics(*ranks: str, cache: str = "") -> bytes:
    """The metrics of ranks with these labels; the running requests of each are its place, and one."""
    lines = ["# TYPE vllm:num_requests_running gauge"]
    lines += [f'vllm:num_requests_running{{engine="{label}"}} {at + 1}' for at, label in enumerate(ranks)]
    lines += ["# TYPE vllm:num_requests_waiting gauge"]
    lines += [f'vllm:num_requests_waiting{{engine="{label}"}} 7' for label in ranks]
    lines += ["# TYPE vllm:kv_cache_usage_perc gauge", f'vllm:kv_cache_usage_perc{{engine="{ranks[0]}"}} 0.5']
    lines += ["# TYPE vllm:prompt_tokens counter", f'vllm:prompt_tokens_total{{engine="{ranks[0]}"}} 100']
    lines += ["# TYPE vllm:generation_tokens counter", f'vllm:generation_tokens_total{{engine="{ranks[0]}"}} NaN']
    lines += ["# TYPE vllm:cache_config_info gauge"]
    lines += [f'vllm:cache_config_info{{{cache},engine="{label}"}} 1' for label in ranks if cache]
    return "\n".join([*lines, ""]).encode()


def test_metrics_tell_of_each_rank() -> None:
    """In the order of their numbers; a number that is none counts as not said."""
    first, second, third = read_metrics(metrics("0", "10", "2"))
    assert first == RankFacts(1, 7, 0.5, 100, 0)
    assert (second.running, third.running) == (3, 2)


def test_the_one_rank_of_a_server_may_have_any_label() -> None:
    """One server of several behind a load balancer has the number that it has among all."""
    assert [rank.running for rank in read_metrics(metrics("3"))] == [1]
    assert [rank.running for rank in read_metrics(metrics("?"))] == [1]


@pytest.mark.parametrize(
    ("cache", "tokens"),
    [
        ('kv_cache_size_tokens="5000",block_size="16",num_gpu_blocks="100"', 5000),
        ('kv_cache_size_tokens="None",block_size="16",num_gpu_blocks="100"', 800),
        ('block_size="16",num_gpu_blocks="100"', 800),
        ('block_size="16",num_gpu_blocks="None"', None),
        ('kv_cache_size_tokens="0"', None),
        (f'kv_cache_size_tokens="{"9" * 5000}"', None),
        ("", None),
    ],
)
def test_a_kv_cache_holds_so_many_tokens(cache: str, tokens: int | None) -> None:
    """VLLM says its blocks of all ranks together, and its tokens of each."""
    assert [rank.kv_tokens for rank in read_metrics(metrics("0", "1", cache=cache))] == [tokens, tokens]


@pytest.mark.parametrize(
    "body", [b"", b'{"data": []}', b"\xff", b"# TYPE other gauge\nother 1\n", b"vllm:num_requests_running{ 1\n"]
)
def test_what_are_no_metrics_of_vllm_tell_nothing(body: bytes) -> None:
    """A server may have them off."""
    assert list(read_metrics(body)) == []


def test_what_is_beyond_all_bounds_tells_nothing() -> None:
    """Of as many ranks as none has, and of pages that would take seconds; no label is too odd."""
    assert len(read_metrics(metrics(*map(str, range(MOST_RANKS))))) == MOST_RANKS
    assert list(read_metrics(metrics(*map(str, range(MOST_RANKS + 1))))) == []
    begun_s = time.process_time()
    assert list(read_metrics(metrics(*map(str, range(200_000))))) == []
    assert time.process_time() - begun_s < 2
    assert len(read_metrics(metrics("9" * 5000, "²", "1"))) == 3


def test_ranks_that_cannot_be_chosen_count_as_one() -> None:
    """What they do is added up; how full they are is said of the fullest."""
    both = RankFacts(1, 2, 0.25, 3, 4, 100) + RankFacts(10, 20, 0.5, 30, 40, 200)
    assert both == RankFacts(11, 22, 0.5, 33, 44, 300)
    assert (both + RankFacts()).kv_tokens is None


def test_a_release_is_written_with_dots():
    """However much of it is known."""
    assert (dotted((0, 32)), dotted((0, 20, 2))) == ("0.32", "0.20.2")
