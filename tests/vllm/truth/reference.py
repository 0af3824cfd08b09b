"""The logprobs of sampled ids as Hugging Face's Qwen3 makes them: ``reference.py WEIGHTS < rows > logprobs``.

Runs inside the vLLM environment, which has torch and transformers. Reads a JSON list of rows, each with `token_ids` and
`turns` of `start`, `end` and `sampling`; writes, for each row, the list of each turn's logprobs.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import torch
from transformers import Qwen3ForCausalLM

_POSITIONS = 256
"""Positions whose logits are held at once: each has 151,936 of them."""


def main(weights: str) -> None:
    """Score every row on standard input."""
    torch.set_num_threads(2)
    model = Qwen3ForCausalLM.from_pretrained(weights, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        scores = [scored(model, row) for row in json.load(sys.stdin)]
    json.dump(scores, sys.stdout)


def scored(model: Any, row: Mapping[str, Any]) -> list[list[float]]:
    """The logprobs of what each turn of a row sampled."""
    ids = torch.tensor(row["token_ids"])
    hidden = model.model(ids[None]).last_hidden_state[0]
    return [turn_scores(model.lm_head, hidden, ids, turn) for turn in row["turns"]]


def turn_scores(head: Any, hidden: torch.Tensor, ids: torch.Tensor, turn: Mapping[str, Any]) -> list[float]:
    """The logprobs of the ids that one turn sampled, under the parameters that it was sampled with."""
    found: list[float] = []
    for start in range(turn["start"], turn["end"], _POSITIONS):
        places = range(start, min(start + _POSITIONS, turn["end"]))
        logits = head(hidden[places.start - 1 : places.stop - 1]).float()
        table = torch.log_softmax(kept(logits / turn["sampling"]["temperature"], turn["sampling"]), dim=-1)
        found += table[torch.arange(len(places)), ids[places.start : places.stop]].tolist()
    return found


def kept(logits: torch.Tensor, sampling: Mapping[str, Any]) -> torch.Tensor:
    """The logits with minus infinity for what could not be sampled."""
    if sampling["top_k"]:
        least = logits.topk(sampling["top_k"]).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if sampling["top_p"] < 1:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # of what is more likely
        out = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= sampling["top_p"])
        logits = logits.masked_fill(out, -torch.inf)
    return logits


if __name__ == "__main__":
    main(sys.argv[1])
