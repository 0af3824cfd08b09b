"""The quick starts do what they say, command by command and line by line."""

import json

import numpy as np
import pytest

from tests.readme.documents import ROOT, Reader, blocks_of, followed

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", ["quickstart-agent.md", "quickstart-trainer.md"])
def test_a_quick_start_has_nothing_that_is_not_followed(name: str) -> None:
    """Every block is bash or Python."""
    assert {block.language for block in blocks_of(ROOT / "docs" / name)} == {"bash", "python"}


def test_an_agent_gets_along_as_its_quick_start_says() -> None:
    """Three answers, then turns and one row of bridged ones."""
    with followed("quickstart-agent.md") as reader:
        said, model, turns, rows = reader.printed
        (row,) = json.loads(rows)["data"]

    assert len(said.strip().splitlines()) >= 3
    assert model == "rollout-gateway/demo\n"
    assert [turn["how"] for turn in json.loads(turns)["data"]] == ["rendered", "bridged", "bridged"]
    assert sum(row["loss_mask"]) == sum(turn["completion_tokens"] for turn in row["turns"])


def test_a_trainer_gets_along_as_its_quick_start_says() -> None:
    """The arrays of both kinds hold the rows, id by id; afterwards nothing is held."""
    with followed("quickstart-trainer.md") as reader:
        _agrees_with_rows(reader)
        rows, samples, printed = reader.names["rows"], reader.names["samples"], reader.printed

    assert len(rows) == len(samples) == 8
    for row, sample in zip(rows, samples, strict=True):
        assert sample["prompt_ids"] + sample["completion_ids"] == row["token_ids"]
        assert [*sample["prompt_mask"], *sample["completion_mask"]] == [mask == 1 for mask in row["loss_mask"]]
        assert len(sample["completion_logprobs"]) == len(sample["completion_ids"])
        assert {span["version"] for span in row["policy_versions"]} == {"step-0"}
    advantages = {sample["advantage"] for sample in samples}
    assert len(advantages) > 1
    assert abs(sum(sample["advantage"] for sample in samples)) < 1e-9
    assert printed[-1] == "step-1 is in the engines; 0 sessions are held\n"


def _agrees_with_rows(reader: Reader) -> None:
    """What verl gets is the rows, and padding where they are shorter."""
    arrays, others, rows = reader.names["tensors"], reader.names["others"], reader.names["rows"]
    prompts, responses = arrays["prompts"].shape[1], arrays["responses"].shape[1]
    assert arrays["input_ids"].shape == arrays["attention_mask"].shape == (8, prompts + responses)
    assert list(others["uid"]) == [row["group_id"] for row in rows]
    for index, row in enumerate(rows):
        there = arrays["attention_mask"][index] == 1
        assert arrays["input_ids"][index][there].tolist() == row["token_ids"]
        assert arrays["position_ids"][index][there].tolist() == list(range(len(row["token_ids"])))
        in_response = there[prompts:]
        assert arrays["response_mask"][index].sum() == sum(row["loss_mask"])
        assert arrays["response_mask"][index][~in_response].sum() == 0
        sampled = arrays["response_mask"][index] == 1
        taught = [value for value, mask in zip(row["logprobs"], row["loss_mask"], strict=True) if mask]
        assert arrays["rollout_log_probs"][index][sampled].tolist() == taught
        assert arrays["rm_scores"][index].sum() == row["reward"]
        assert np.flatnonzero(in_response)[-1] == len(row["token_ids"]) - row["turns"][0]["start"] - 1
