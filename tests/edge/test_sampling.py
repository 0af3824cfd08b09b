"""Under whose rule a turn is sampled, and what it says of that."""

import pytest

from tests.edge.house import HELLO, House, Json, OpenHouse, Words, user

WISHES: Json = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.25, "seed": 5}
LOCKED: Json = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}


async def only_turn(house: House, session: str) -> Json:
    """The one turn of a session."""
    (turn,) = await house.turns(session)
    return turn


async def test_a_turn_shows_what_was_in_effect(house: House) -> None:
    """The engine's defaults and clamps included; what is sent is left for it to clamp."""
    await house.ask("s", temperature=0.001, top_k=-1, max_tokens=3, stop=["END"])
    await house.ask("bare")

    shown = await only_turn(house, "s")
    ids = house.params[0]["stop_token_ids"]
    changed = {"temperature": 0.01, "max_tokens": 3, "stop": ["END"]}
    bare = (await only_turn(house, "bare"))["sampling"]
    assert house.params[0]["temperature"] == 0.001
    assert shown["sampling"] == bare | changed
    assert bare == LOCKED | {
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_tokens": 0,
        "max_tokens": house.params[1]["max_tokens"],
        "seed": None,
        "stop": [],
        "stop_token_ids": ids,
        "include_stop_str_in_output": False,
        "ignore_eos": False,
        "logit_bias": None,
        "bad_words": [],
        "allowed_token_ids": [],
        "thinking_token_budget": None,
        "repetition_detection": None,
        "extra_args": None,
    }
    assert (shown["overridden"], shown["distribution"], shown["logprobs_mode"]) == ({}, "exact", "untold")
    assert not shown["logprobs_exact"]


@pytest.mark.parametrize(
    ("asked", "distribution"),
    [
        ({}, "exact"),
        ({"temperature": 0}, "greedy"),
        ({"top_p": 0.9}, "truncated"),
        ({"logit_bias": {"7": 1}}, "penalised"),
        ({"response_format": {"type": "json_object"}, "max_tokens": 9}, "constrained"),
        ({"bad_words": ["no"]}, "constrained"),
        ({"allowed_token_ids": [9707]}, "constrained"),
        ({"thinking_token_budget": 5}, "constrained"),
        ({"repetition_detection": {"max_pattern_size": 9, "min_count": 9}}, "exact"),
        ({"vllm_xargs": {"mine": 1}}, "unknown"),
    ],
)
async def test_each_distribution_is_named(
    open_house: OpenHouse, tokenizer_folder: str, asked: Json, distribution: str
) -> None:
    """And counted, with what its logprobs are worth."""
    house = await open_house(sim={"tokenizer": tokenizer_folder, "logprobs_mode": "processed_logprobs"})
    await house.have_logprobs_told()

    await house.ask("s", **asked)

    turn = await only_turn(house, "s")
    exact = distribution not in ("greedy", "unknown")
    assert (turn["distribution"], turn["logprobs_mode"], turn["logprobs_exact"]) == (distribution, "processed", exact)
    labels = {"distribution": distribution, "logprobs_exact": str(exact).lower()}
    assert await house.metric("gateway_turn_distributions_total", **labels) == 1


async def test_a_locked_gateway_samples_from_the_model_as_it_is(open_house: OpenHouse) -> None:
    """Whatever agents, and harnesses, say; a session may have it otherwise."""
    house = await open_house(sampling="locked")
    await house.send("POST", "/sessions", session_id="s", forced_sampling_params={"temperature": 0.25, "max_tokens": 4})
    await house.send("POST", "/sessions", session_id="free", sampling="agent", client_seed="keep")
    for name in ("s", "free"):
        await house.ask(name, **WISHES)

    locked, free = await only_turn(house, "s"), await only_turn(house, "free")
    assert {name: house.params[0][name] for name in LOCKED} == LOCKED
    assert {name: locked["sampling"][name] for name in LOCKED} == LOCKED
    assert (locked["overridden"], locked["distribution"], locked["logprobs_exact"]) == (WISHES, "exact", True)
    assert house.params[0]["max_tokens"] == 4
    assert {name: free["sampling"][name] for name in WISHES} == WISHES
    assert (free["overridden"], free["distribution"]) == ({}, "truncated")
    states = [await house.shown(name) for name in ("s", "free")]
    assert [(state["sampling"], state["client_seed"]) for state in states] == [("locked", "drop"), ("agent", "keep")]


async def test_a_session_can_be_locked_by_itself(house: House) -> None:
    """And says so of the turns that it overrode only."""
    await house.send("POST", "/sessions", session_id="s", sampling="locked", rollout_id="r")
    await house.ask("s", temperature=0.5)
    await house.ask("s", [user("Again?")], temperature=1)
    await house.ask("other", temperature=0.5)

    assert [turn["overridden"] for turn in await house.turns("s")] == [{"temperature": 0.5}, {}]
    assert [params.get("temperature") for params in house.params] == [1.0, 1.0, 0.5]
    shown = [await house.shown(name) for name in ("s", "other")]
    assert [state["rollout_id"] for state in shown] == ["r", "other"]


@pytest.mark.parametrize(("kept", "seeds"), [("drop", [None, None]), ("keep", [5, 6])])
async def test_an_agents_seed_is_kept_only_when_asked(
    open_house: OpenHouse, kept: str, seeds: list[int | None]
) -> None:
    """Each answer of a call has its own, and every turn says which; what was dropped is told."""
    house = await open_house(client_seed=kept)
    await house.ask("s", seed=5, n=2)

    turns = await house.turns("s")
    assert sorted((params.get("seed") for params in house.params), key=str) == seeds
    assert [turn["sampling"]["seed"] for turn in turns] == seeds
    assert [turn["overridden"] for turn in turns] == [{} if kept == "keep" else {"seed": 5}] * 2


async def test_a_harness_keeps_its_own_seeds(house: House) -> None:
    """They are not an agent's."""
    await house.send("POST", "/sessions", session_id="s", sampling_params={"seed": 9})
    await house.ask("s", seed=5)

    turn = await only_turn(house, "s")
    assert (turn["sampling"]["seed"], turn["overridden"]) == (9, {"seed": 5})


async def test_what_an_agent_said_is_not_logged(house: House, words: Words, capsys: pytest.CaptureFixture[str]) -> None:
    """Stop strings and arguments for engines may say anything."""
    await house.ask("s", HELLO, words.said("Hi."), stop=["hidden-stop"])
    assert "hidden-stop" not in capsys.readouterr().out
