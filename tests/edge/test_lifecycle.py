"""A session is made, shown, listed, finished and deleted, through real sockets."""

import orjson
import pytest

from tests.edge.house import HELLO, House, Json, OpenHouse, Words, is_final, listed, until, waiting

# Made


async def test_a_session_that_was_made_says_where_it_is_and_is_there(house: House, words: Words) -> None:
    """An agent gets the URL and nothing else; before it speaks, the session is empty."""
    made = await house.send("POST", "/sessions", session_id="run 7/a", group_id="g", metadata={"task": 1})

    assert made.status == 201
    assert made.body.keys() == {"session_id", "base_url"}
    base = house.http.make_url("/")
    assert made.body["base_url"] == f"{base}sessions/run%207/a/v1"
    empty: Json = {"data": [], "next": None}
    for what, body in (("turns", empty), ("trajectories", {**empty, "excluded": []})):
        assert (await house.call("GET", f"/sessions/run%207/a/{what}")).body == body
    state = await house.shown("run%207/a")
    assert state["session_id"] == "run 7/a"
    assert (state["group_id"], state["metadata"], state["status"], state["reward"]) == ("g", {"task": 1}, "open", None)
    assert (state["turns"], state["turns_in_flight"], state["completion_tokens"]) == (0, 0, 0)

    spoken = await house.call(
        "POST", "/sessions/run%207/a/v1/chat/completions", data=b'{"messages": [{"role": "user"}]}'
    )

    assert spoken.status == 200
    state = await house.shown("run%207/a")
    usage = spoken.body["usage"]
    assert (state["turns"], state["prompt_tokens"]) == (1, usage["prompt_tokens"])
    assert state["completion_tokens"] == usage["completion_tokens"]


async def test_a_session_without_a_name_gets_one(house: House) -> None:
    """A new one each time; a body is not needed."""
    made = [(await house.send("POST", "/sessions")).body["session_id"] for _ in range(2)]

    assert len(set(made)) == 2
    assert (await listed(house))[0] == made


async def test_a_taken_id_is_not_given_twice(house: House) -> None:
    """Whether the session was made, or came with its first turn."""
    await house.send("POST", "/sessions", session_id="made")
    await house.ask("spoken")
    for name in ("made", "spoken"):
        is_final(await house.send("POST", "/sessions", session_id=name), 409, "session_exists")


@pytest.mark.parametrize("fields", [{}, {"session_id": None}, {"session_id": "fläche/1"}])
async def test_the_header_that_balancers_read_names_a_session(house: House, fields: Json) -> None:
    """Where the body does not, or says the same; the whole of an id fits into it."""
    named = {"X-Session-ID": "fläche/1"}
    made = await house.call("POST", "/sessions", data=orjson.dumps(fields), headers=named)

    assert (made.status, made.body["session_id"]) == (201, "fläche/1")
    assert await listed(house) == (["fläche/1"], None)


@pytest.mark.parametrize(
    ("header", "fields"), [("a", {"session_id": "b"}), ("a", {"session_id": "A"}), ("a//b", {}), ("turns", {})]
)
async def test_a_header_that_names_another_session_or_an_ill_one_makes_none(
    house: House, header: str, fields: Json
) -> None:
    """The session would be where no balancer looks for it."""
    named = {"X-Session-ID": header}
    refused = await house.call("POST", "/sessions", data=orjson.dumps(fields), headers=named)

    assert (refused.status, refused.error["param"]) == (400, "session_id")
    assert await listed(house) == ([], None)


@pytest.mark.parametrize("name", ["", "a//b", "turns", "a/v1/b", "x" * 513, " a", "a "])
async def test_an_ill_id_makes_no_session(house: House, name: str) -> None:
    """The error names the field."""
    refused = await house.send("POST", "/sessions", session_id=name)

    assert (refused.status, refused.error["param"]) == (400, "session_id")
    assert await listed(house) == ([], None)


@pytest.mark.parametrize(
    ("fields", "named"), [({"grop_id": "g"}, "grop_id"), ({"budget": {"max_turn": 1}}, "budget.max_turn")]
)
async def test_a_misspelt_word_makes_no_session(house: House, fields: Json, named: str) -> None:
    """A budget that bounds nothing would be noticed too late."""
    refused = await house.send("POST", "/sessions", session_id="s", **fields)

    assert (refused.status, refused.error["param"]) == (400, named)
    assert await listed(house) == ([], None)


async def test_a_misspelt_reward_finishes_nothing(house: House) -> None:
    """The trainer would miss it."""
    await house.send("POST", "/sessions", session_id="s")

    refused = await house.send("POST", "/sessions/s/finish", rewrad=1)

    assert (refused.status, refused.error["param"]) == (400, "rewrad")
    assert (await house.shown("s"))["status"] == "open"


async def test_forced_tokens_are_sampled_though_the_request_has_a_smaller_limit(house: House) -> None:
    """What is forced wins; the engine would refuse the two together."""
    await house.send("POST", "/sessions", session_id="s", forced_sampling_params={"min_tokens": 30})

    assert (await house.ask("s", max_tokens=10)).status == 200
    assert (await house.ask("s", max_completion_tokens=40)).status == 200

    assert [(sent["min_tokens"], sent["max_tokens"]) for sent in house.params] == [(30, 30), (30, 40)]


async def test_an_empty_session_stays_when_its_first_call_is_refused(house: House) -> None:
    """Who made it will come back to it; one that nobody made is not there after a refusal."""
    await house.send("POST", "/sessions", session_id="s")
    for name in ("s", "other"):
        house.faults.inject("error_500")
        assert (await house.ask(name)).status == 503

    assert (await listed(house))[0] == ["s"]


async def test_defaults_fill_what_a_request_leaves_out_and_what_is_forced_wins(house: House, words: Words) -> None:
    """The engine is told; other sessions are not touched."""
    defaults = {"temperature": 0.5, "top_k": 7, "ignore_eos": True, "vllm_xargs": {"script": words.said("Hi.")}}
    forced = {"seed": 3, "max_tokens": 40}
    await house.send("POST", "/sessions", session_id="s", sampling_params=defaults, forced_sampling_params=forced)

    await house.ask("s", temperature=0.0, seed=8, max_tokens=50, min_tokens=45, ignore_eos=False)
    await house.ask("other", HELLO, words.said("Hi."), temperature=0.25)

    mine, other = house.params
    assert {name: mine[name] for name in ("temperature", "top_k", "seed")} == {
        "temperature": 0.0,
        "top_k": 7,
        "seed": 3,
    }
    assert (mine["max_tokens"], mine["min_tokens"]) == (40, 40)
    assert "ignore_eos" not in mine
    assert (other["temperature"], other.get("top_k"), other.get("seed")) == (0.25, None, None)
    state = await house.shown("s")
    assert (state["sampling_params"], state["forced_sampling_params"]) == (defaults, forced)


# Listed


async def test_a_listing_goes_on_where_it_was_though_sessions_come_and_go(house: House) -> None:
    """What is deleted moves nothing, what is new comes at the end, and nothing comes twice."""
    for at in range(7):
        await house.send("POST", "/sessions", session_id=f"s{at}")
    first, cursor = await listed(house, "?limit=3")
    assert first == ["s0", "s1", "s2"]

    for gone in ("s0", "s2", "s4"):
        assert (await house.send("DELETE", f"/sessions/{gone}")).status == 204
    await house.send("POST", "/sessions", session_id="new")

    second, cursor = await listed(house, f"?limit=3&cursor={cursor}")
    assert second == ["s3", "s5", "s6"]
    assert await listed(house, f"?limit=3&cursor={cursor}") == (["new"], None)
    assert await listed(house) == (["s1", "s3", "s5", "s6", "new"], None)
    assert await listed(house, "?limit=5") == (["s1", "s3", "s5", "s6", "new"], None)


async def test_a_session_whose_first_call_takes_long_is_in_the_listing(open_house: OpenHouse, words: Words) -> None:
    """It began before what the first page shows, and was there only after it."""
    house = await open_house(sim={"first_token_delay_s": 0.2})
    async with waiting(house, "slow", HELLO, words.said("Hi.")) as answer:
        await until(lambda: house.journal)
        for at in range(4):
            await house.send("POST", "/sessions", session_id=f"m{at}")
        first, cursor = await listed(house, "?limit=2")
        assert (await answer).status == 200

    assert first == ["m0", "m1"]
    assert await listed(house, f"?cursor={cursor}") == (["m2", "m3", "slow"], None)


async def test_a_listing_can_be_of_one_group(house: House) -> None:
    """Page by page; a group of none is empty, and an ill query is refused."""
    for at in range(6):
        await house.send("POST", "/sessions", session_id=f"s{at}", group_id=f"g{at % 2}")

    first, cursor = await listed(house, "?group_id=g1&limit=2")
    assert first == ["s1", "s3"]
    assert await listed(house, f"?group_id=g1&limit=2&cursor={cursor}") == (["s5"], None)
    assert await listed(house, "?group_id=other") == ([], None)
    assert (await house.send("GET", "/sessions?limit=0")).error["param"] == "limit"
    assert (await house.send("GET", "/sessions?cursor=x")).error["param"] == "cursor"


# Finished


async def test_a_finished_session_takes_no_more_turns_and_keeps_what_it_has(house: House, words: Words) -> None:
    """Its agents are refused for good; the trainer reads as before; the last reward counts."""
    await house.ask("s", HELLO, words.said("Hi."))

    assert (await house.send("POST", "/sessions/s/finish", reward=0.25, metadata={"a": 1, "b": 1})).status == 200
    is_final(await house.ask("s"), 409, "session_closed")
    again = await house.send("POST", "/sessions/s/finish", reward=1, metadata={"b": 2})
    silent = await house.send("POST", "/sessions/s/finish")

    assert again.body == silent.body == await house.shown("s")
    assert (silent.body["status"], silent.body["reward"], silent.body["metadata"]) == ("finished", 1, {"a": 1, "b": 2})
    assert len(await house.turns("s")) == len(await house.rows("s")) == len(house.journal) == 1
    is_final(await house.send("POST", "/sessions", session_id="s"), 409, "session_exists")


async def test_turns_in_flight_when_a_session_is_finished_still_end(open_house: OpenHouse, words: Words) -> None:
    """Even its first: what was begun is recorded."""
    house = await open_house(sim={"first_token_delay_s": 0.2})
    async with waiting(house, "s", HELLO, words.said("Hi.")) as answer:
        await until(lambda: house.journal)
        finished = await house.send("POST", "/sessions/s/finish", reward=1)
        assert (finished.status, finished.body["turns_in_flight"]) == (200, 1)
        assert (await answer).status == 200

    state = await house.shown("s")
    assert (state["turns"], state["turns_in_flight"], state["reward"]) == (1, 0, 1)
    is_final(await house.ask("s"), 409, "session_closed")


async def test_an_unknown_session_can_be_neither_seen_nor_finished_nor_deleted(house: House) -> None:
    """And none of it makes one."""
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/finish"), ("GET", "/turns")):
        is_final(await house.send(method, f"/sessions/none{path}"), 404, "session_not_found")
    assert await listed(house) == ([], None)


@pytest.mark.parametrize("reward", [True, "1", [1]])
async def test_an_ill_reward_finishes_nothing(house: House, reward: object) -> None:
    """The session goes on."""
    await house.send("POST", "/sessions", session_id="s")

    refused = await house.send("POST", "/sessions/s/finish", reward=reward)

    assert (refused.status, refused.error["param"]) == (400, "reward")
    assert (await house.ask("s")).status == 200


async def test_a_body_that_is_no_json_is_not_read(house: House) -> None:
    """As for agents."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = await house.call("POST", "/sessions", data=b"session_id=s", headers=form)

    assert refused.status == 415
    assert await listed(house) == ([], None)


# Who may


AGENT, ADMIN = {"Authorization": "Bearer agent"}, {"x-api-key": "admin"}
LIFECYCLE = [
    ("POST", "/sessions"),
    ("GET", "/sessions"),
    ("GET", "/sessions/s"),
    ("POST", "/sessions/s/finish"),
    ("DELETE", "/sessions/s"),
]


@pytest.mark.parametrize(("method", "path"), LIFECYCLE)
async def test_an_agents_key_does_not_open_the_lifecycle(open_house: OpenHouse, method: str, path: str) -> None:
    """An agent must not grade itself, nor delete what it did."""
    house = await open_house(agent_key="agent", admin_key="admin")
    assert (await house.ask("s", headers=AGENT)).status == 200

    assert (await house.call(method, path, headers=AGENT)).status == 403
    assert (await house.call(method, path)).status == 401
    assert (await house.call(method, path, headers=ADMIN)).status < 300


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/sessions", {"GET", "HEAD", "POST"}),
        ("PUT", "/sessions/s", {"GET", "HEAD", "DELETE"}),
        ("GET", "/sessions/s/finish", {"POST"}),
        ("DELETE", "/sessions/s/turns", {"GET"}),
        ("DELETE", "/sessions/s/v1/chat/completions", {"POST"}),
        ("GET", "/sessions/s/v1/chat/completions", {"POST"}),
    ],
)
async def test_a_path_of_a_sessions_part_is_no_session(house: House, method: str, path: str, allowed: set[str]) -> None:
    """A wrong method there is 405, and says which is right."""
    answer = await house.call(method, path)

    assert answer.status == 405
    assert set(answer.headers["Allow"].split(",")) == allowed


async def test_an_encoded_slash_is_a_slash(house: House) -> None:
    """Proxies and SDKs encode it as they like."""
    await house.send("POST", "/sessions", session_id="a/b")

    for path in ("a/b", "a%2Fb", "a%2fb"):
        assert (await house.shown(path))["session_id"] == "a/b"
    shown: Json = (await house.send("POST", "/sessions/a%2Fb/finish", reward=1)).body
    assert shown["reward"] == 1
    assert (await house.send("DELETE", "/sessions/a%2Fb")).status == 204
