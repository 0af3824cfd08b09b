"""How a call names its session, and which names can be one."""

import orjson
import pytest

from tests.edge.house import HELLO, House, Json, Words

CHAT = orjson.dumps({"messages": HELLO})


async def test_a_session_is_named_by_path_then_header_then_body(house: House) -> None:
    """Path, `X-Session-ID`, `session_id`, `prompt_cache_key`: the first that is given; it comes back in a header."""
    body: Json = {"session_id": "body", "prompt_cache_key": "cache"}
    header = {"X-Session-ID": "header"}
    answers = [
        await house.ask("path", headers=header, **body),
        await house.ask(None, headers=header, **body),
        await house.ask(None, **body),
        await house.ask(None, prompt_cache_key="cache"),
    ]

    names = ["path", "header", "body", "cache"]
    assert [answer.headers["x-session-id"] for answer in answers] == names
    assert [len(await house.turns(name)) for name in names] == [1] * 4


async def test_a_nameless_session_gets_a_name(house: House, words: Words) -> None:
    """Each call another; under it the turn is found."""
    answers = [await house.ask(None, HELLO, words.said("Hi.")) for _ in range(2)]

    names = [answer.headers["x-session-id"] for answer in answers]
    assert len(set(names)) == 2
    assert [len(await house.turns(name)) for name in names] == [1, 1]


async def test_a_slash_in_a_session_id_may_be_escaped_or_not(house: House, words: Words) -> None:
    """`a/b`, `a%2Fb` and `a%2fb` are one session, in every place that names one."""
    for name in ("run/7", "run%2F7", "run%2f7"):
        answer = await house.ask(name, HELLO, words.said("Hi."))
        assert answer.headers["x-session-id"] == "run/7"
    await house.ask(None, HELLO, words.said("Hi."), headers={"X-Session-ID": "run/7"})

    for name in ("run/7", "run%2F7", "run%2f7"):
        assert len(await house.turns(name)) == 4
        assert {row["session_id"] for row in await house.rows(name)} == {"run/7"}


async def test_an_escaped_percent_sign_is_one(house: House, words: Words) -> None:
    """`a%252Fb` is the session called `a%2Fb`, and not `a/b`."""
    answer = await house.ask("a%252Fb", HELLO, words.said("Hi."))

    assert answer.headers["x-session-id"] == "a%2Fb"
    assert await house.turns("a/b") == []
    assert len(await house.turns("a%252Fb")) == 1


@pytest.mark.parametrize(
    "name",
    [
        "a/v1/b",
        "a//b",
        "/a",
        "a/",
        "..",
        "a/../b",
        "./a",
        "turns",
        "a/trajectories",
        "finish",
        "x/v1",
        "a\tb",
        "é" * 513,
    ],
)
async def test_a_session_id_that_cannot_stand_in_a_path_is_refused(house: House, name: str) -> None:
    """In the body as in the header, and with the reason; no engine is asked."""
    answer = await house.ask(None, session_id=name)

    assert answer.status == 400
    assert answer.error["param"] == "session_id"
    assert "session" in answer.error["message"]
    if name.isascii() and name.isprintable():
        assert (await house.ask(None, headers={"X-Session-ID": name})).status == 400
    assert house.journal == []


async def test_a_base_url_with_v1_twice_is_understood(house: House) -> None:
    """The most common slip."""
    answer = await house.ask("s/v1")

    assert answer.status == 400
    assert "does the base URL have /v1 twice?" in answer.error["message"]


@pytest.mark.parametrize("key", ["team//a", "v1", " ", "x" * 600])
async def test_a_cache_key_that_cannot_be_a_session_id_is_no_error(house: House, words: Words, key: str) -> None:
    """The client has never heard of our sessions: it gets one as if it had said nothing."""
    answers = [await house.ask(None, HELLO, words.said("Hi."), prompt_cache_key=key) for _ in range(2)]

    assert [answer.status for answer in answers] == [200, 200]
    assert len({answer.headers["x-session-id"] for answer in answers} - {key}) == 2


@pytest.mark.parametrize("path", ["a//b", "a%2F%2Fb", "a%2Fv1%2Fb", "turns", "..%2Fa", "a%0Ab", "%2E%2E"])
async def test_a_path_that_holds_no_session_id_is_refused(house: House, path: str) -> None:
    """400 or 404 in OpenAI's shape, never a session by another name."""
    answer = await house.ask(path)

    assert answer.status in (400, 404)
    assert answer.error
    assert house.journal == []


async def test_ids_of_any_script_are_ids(house: House, words: Words) -> None:
    """A session may be called in Greek."""
    assert (await house.ask("%CE%B1%CE%B2", HELLO, words.said("Hi."))).status == 200

    (row,) = await house.rows("%CE%B1%CE%B2")
    assert row["session_id"] == "αβ"
