"""Make a real vLLM say what a test needs it to say.

Runs inside the server: ``--logits-processors scripted_output:ScriptedOutput``, with this file on its path.
A request brings the ids as ``sampling_params.extra_args["script"]``, or from chat as ``vllm_xargs["script"]``.
Under the default ``--logprobs-mode`` the logprobs are taken before any processor runs, so they stay the model's own.
"""

import json
from collections.abc import Callable, Sequence

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

Step = Callable[[list[int], torch.Tensor], torch.Tensor]


class ScriptedOutput(AdapterLogitsProcessor):
    """Emit the ids of the request's script, one a step; after its end the model is on its own."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Fail on a script that cannot be read here, where it costs one request and not the engine."""
        script_of(sampling_params)

    def is_argmax_invariant(self) -> bool:
        """Greedy sampling must run this too."""
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> Step | None:
        """The step function of one request; ``None`` when it brings no script."""
        script = script_of(params)
        return follow(script) if script else None


def script_of(params: SamplingParams) -> list[int]:
    """The script of one request, given as a list or as the JSON text of one; empty when there is none."""
    given = (params.extra_args or {}).get("script") or []
    return [int(token) for token in (json.loads(given) if isinstance(given, str) else given)]


def follow(script: Sequence[int]) -> Step:
    """A step function which leaves only the script's next id possible."""

    def step(sampled: list[int], logits: torch.Tensor) -> torch.Tensor:
        if len(sampled) >= len(script):
            return logits
        only = torch.full_like(logits, float("-inf"))
        only[script[len(sampled)]] = 0.0
        return only

    return step
