"""What a harness says about a turn in its headers, and where that goes and does not go."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from structlog.testing import capture_logs

from gateway.core.types import Labels
from gateway.edge.labels import labels_of
from gateway.errors import BadRequest
from tests.edge.house import OpenHouse
from tests.edge.keeping import KeepingStore

ALLOWED = ("x-session-id", "x-claude-code-agent-id")


def said(*headers: tuple[str, str]) -> Labels:
    """The labels of a request with these headers."""
    return labels_of(CIMultiDictProxy(CIMultiDict(headers)), ALLOWED)


def test_without_headers_a_turn_is_trained_and_has_no_tags() -> None:
    """Which is what most agents ask for."""
    assert said(("User-Agent", "x"), ("Authorization", "Bearer key")) == Labels({}, train=True)


def test_allowed_headers_become_tags_under_their_name_in_lower_case() -> None:
    """A header that comes twice is one list, as HTTP has it; an empty one says nothing."""
    labels = said(("X-Session-ID", "a"), ("x-session-id", "b"), ("X-Claude-Code-Agent-Id", ""), ("X-Other", "c"))
    assert labels.tags == {"x-session-id": "a, b"}


def test_tags_are_said_one_by_one_and_in_lists() -> None:
    """Empty items are no items, a value may hold an equals sign or nothing, and the last of equal names wins."""
    labels = said(("X-Gateway-Tag", "step=1, role = judge ,"), ("x-gateway-tag", ",step=2,url=a=b,none="))
    assert labels.tags == {"step": "2", "role": "judge", "url": "a=b", "none": ""}


def test_a_tag_said_outright_comes_before_a_header_of_its_name() -> None:
    """The harness wrote it for us."""
    assert said(("x-gateway-tag", "x-session-id=mine"), ("x-session-id", "theirs")).tags == {"x-session-id": "mine"}


@pytest.mark.parametrize("word", ["false", "False", " 0 ", "no", "NO"])
def test_a_harness_can_keep_a_turn_from_training(word: str) -> None:
    """In the words that people write."""
    assert said(("x-gateway-train", word)).train is False


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "yes"])
def test_a_harness_can_say_that_a_turn_is_for_training(word: str) -> None:
    """Which it is anyway."""
    assert said(("x-gateway-train", word)).train is True


@pytest.mark.parametrize(
    "headers",
    [
        [("x-gateway-train", "")],
        [("x-gateway-train", "maybe")],
        [("x-gateway-train", "true"), ("x-gateway-train", "false")],
        [("x-gateway-tag", "a")],
        [("x-gateway-tag", "=a")],
        [("x-gateway-tag", "a b=c")],
        [("x-gateway-tag", "ä=c")],
        [("x-gateway-tag", f"{'n' * 65}=c")],
        [("x-gateway-tag", f"a={'v' * 4097}")],
        [("x-gateway-tag", "a=\udcff")],
        [("x-gateway-tag", ",".join(f"t{i}=" for i in range(33)))],
    ],
)
def test_an_ill_header_is_refused_by_its_name(headers: list[tuple[str, str]]) -> None:
    """And its value is not repeated."""
    with pytest.raises(BadRequest) as refused:
        said(*headers)
    assert refused.value.param == headers[0][0]
    assert headers[0][0] in refused.value.message
    assert len(refused.value.message) < 150


@pytest.mark.parametrize(
    ("heard", "kept"),
    [("v" * 4097, "v" * 4096), ("a\udcffb", "a\ufffdb"), ("a\tb", "a\ufffdb"), ("\t" * 4097, "\ufffd" * 4096)],
)
def test_what_a_client_says_to_others_is_made_to_fit(heard: str, kept: str) -> None:
    """No call fails for a header that was not written for us."""
    assert said(("x-session-id", heard)).tags == {"x-session-id": kept}


def test_headers_of_others_get_the_room_that_tags_leave() -> None:
    """However many an operator has allowed."""
    many = tuple(f"h{at}" for at in range(40))
    headers = CIMultiDict([*((name, "x") for name in many), ("x-gateway-tag", "mine=1, h0=2")])

    tags = labels_of(CIMultiDictProxy(headers), many).tags

    assert len(tags) == 32
    assert (tags["mine"], tags["h0"], tags["h30"]) == ("1", "2", "x")


def test_the_bounds_themselves_are_good() -> None:
    """Thirty-two tags, names of 64 characters, values of 4096."""
    labels = said(
        ("x-gateway-tag", ",".join(f"t{i}=" for i in range(31))), ("x-gateway-tag", f"{'n' * 64}={'v' * 4096}")
    )
    assert len(labels.tags) == 32


async def test_a_turn_keeps_the_labels_of_its_request(open_house: OpenHouse) -> None:
    """Claude Code's headers are known from the start; whatever else there is is not kept."""
    store = KeepingStore()
    house = await open_house(store=store, agent_key="hush")
    headers = {"Authorization": "Bearer hush", "X-Claude-Code-Agent-Id": "a-1", "x-gateway-tag": "role=title"}

    assert (await house.ask("s", headers={**headers, "x-gateway-train": "false"})).status == 200
    assert (await house.ask("s", headers={"Authorization": "Bearer hush"})).status == 200

    tagged = Labels({"x-claude-code-agent-id": "a-1", "role": "title"}, train=False)
    assert [turn.labels for turn in store.turns] == [tagged, Labels()]


async def test_which_headers_are_kept_is_the_operators_choice(open_house: OpenHouse) -> None:
    """However the names are written."""
    store = KeepingStore()
    house = await open_house(store=store, tag_header=("X-Task",))

    assert (await house.ask("s", headers={"x-task": "t", "X-Claude-Code-Agent-Id": "a-1"})).status == 200

    assert store.turns[0].labels.tags == {"x-task": "t"}


async def test_an_ill_label_is_refused_before_anything_is_sampled(open_house: OpenHouse) -> None:
    """As any other part of a request."""
    house = await open_house()
    answer = await house.ask("s", headers={"x-gateway-train": "perhaps"})

    assert answer.status == 400
    assert answer.error["param"] == "x-gateway-train"
    assert not house.journal


async def test_a_call_does_not_fail_for_a_header_that_was_not_written_for_us(open_house: OpenHouse) -> None:
    """Codex' may be long."""
    store = KeepingStore()
    house = await open_house(store=store)

    assert (await house.ask("s", headers={"x-codex-turn-metadata": "x" * 8000})).status == 200

    assert store.turns[0].labels.tags == {"x-codex-turn-metadata": "x" * 4096}


async def test_tags_reach_neither_metrics_nor_the_log(open_house: OpenHouse) -> None:
    """They may say more than an operator's tools should keep, and a label per value would fill them."""
    house = await open_house()
    with capture_logs() as lines:
        assert (await house.ask("s", headers={"x-gateway-tag": "secret-name=secret-value"})).status == 200

    metrics = (await house.call("GET", "/metrics")).body
    assert lines
    assert "secret-" not in repr(lines)
    assert "secret-" not in metrics
