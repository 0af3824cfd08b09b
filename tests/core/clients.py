"""What agents say, and what they do to our answers before they send them back."""

import json
from random import Random
from typing import Any

from tests.core.naive import Above, Said

ABOVE = [
    Above(),
    Above(model="other"),
    Above(kwargs={"think": True}),
    Above(kwargs={"think": 1}),
    Above(kwargs={"think": 1.0}),
    Above(tools=({"name": "ls", "strict": False},)),
    Above(tools=({"strict": False, "name": "ls"},)),
    Above(tools=({"name": "ls", "strict": 0},)),
]
ASKS = ["a", "b", "a ", ""]
SYSTEMS = ["Be brief.", "Be brief. ", "Be long."]
ANSWERS = ["yes", "yes\n", " yes", "no", "", "\n"]
THOUGHTS = ["", "", "hm", "hm ", "oh"]
ARGUMENTS = [
    '{"n": 1, "s": "é"}',
    '{"n":1.0,"s":"\\u00e9"}',
    '{"n":true,"s":"é"}',
    '{"b": {"c": [1, 2]}, "a": null}',
    '{"a": 1, "a": 2}',
    '{"a": NaN}',
    "{}",
    "",
    "not json",
    "not  json",
]


def user(rng: Random) -> Said:
    return {"role": "user", "content": rng.choice(ASKS)}


def system(rng: Random) -> Said:
    return {"role": "system", "content": rng.choice(SYSTEMS)}


def assistant(rng: Random, *, calls: list[Said] | None = None) -> Said:
    """An answer; without `calls`, somebody else's, which makes calls of its own."""
    said: dict[str, Any] = {"role": "assistant", "content": rng.choice(ANSWERS)}
    if thought := rng.choice(THOUGHTS):
        said["reasoning"] = thought
    if calls is None and rng.randrange(3) == 0:
        calls = [{"id": rng.choice(["", "theirs", "call_0"]), "name": "ls", "arguments": rng.choice(ARGUMENTS)}]
    if calls:
        said["calls"] = calls
    return said


def replies(rng: Random, answer: Said) -> list[Said]:
    """What a client sends after an answer: the results of its calls, or a question, or now and then nothing."""
    called = [call["id"] for call in answer.get("calls", ())]
    if called and rng.randrange(8):
        return [{"role": "tool", "content": rng.choice(ASKS), "answers": call_id} for call_id in called]
    return [user(rng) for _ in range(rng.choice([1, 1, 1, 1, 2, 0]))]


def replayed(rng: Random, answer: Said) -> Said:
    """An answer as a client sends it back: one or several of the rewrites that real clients were seen to do."""
    said = dict(answer)
    for _ in range(rng.choice([1, 1, 2, 3])):
        match rng.randrange(7):
            case 0:
                said["content"] = said["content"].strip()
            case 1:
                said["content"] = "\n" + said["content"]
            case 2:
                said["content"] = ""
            case 3:
                said.pop("reasoning", None)
            case 4:
                said["reasoning"] = said.get("reasoning", "made up").strip()
            case 5 if "calls" in said:
                said["calls"] = [{**call, "arguments": respelt(rng, call["arguments"])} for call in said["calls"]]
            case 6 if "calls" in said:
                said["calls"] = [{**call, "id": rng.choice(["", "", call["id"]])} for call in said["calls"]]
    return said


def respelt(rng: Random, arguments: str) -> str:
    """Arguments as a client's JSON writer spells them, which is sloppy about what is no plain JSON."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    if rng.randrange(2):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, indent=1, sort_keys=True)


def falsified(rng: Random, said: Said) -> Said:
    """Another message in a message's place."""
    if "calls" in said and rng.randrange(2):
        key = rng.choice(["id", "name", "arguments"])
        first, *others = said["calls"]
        return {**said, "calls": [{**first, key: "{}" if key == "arguments" else "forged"}, *others]}
    if "answers" in said and rng.randrange(2):
        return {**said, "answers": rng.choice(["forged", ""])}
    if "reasoning" in said and rng.randrange(2):
        return {**said, "reasoning": "forged"}
    return {**said, "content": said["content"] + "!"}
