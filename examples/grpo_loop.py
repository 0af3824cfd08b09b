"""A trainer in small, after GRPO: rollouts by group, advantages, rows, and new weights under a pause.

    python examples/grpo_loop.py                        # before a simulated engine of its own
    python examples/grpo_loop.py http://127.0.0.1:8080  # before a gateway that runs

Needs ``pip install rollout-gateway openai``. What a trainer of yours would do instead is `train`.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

from gateway.client import GatewayClient, launch, simulated_engine

STEPS, GROUPS, ROLLOUTS = 3, 2, 4
TASKS = ("Name a river, and say why you like it.", "Explain a bridge to a child.")


@dataclass(frozen=True)
class Sample:
    """One row, as a loss needs it: four lists, of one length, and a number."""

    token_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    versions: set[str]
    advantage: float


def rollout(gateway: GatewayClient, group: str, task: str, number: int) -> float:
    """One attempt at a task: two turns. Its reward is the share of its answers that ask nothing back."""
    # Each with a seed of its own, since a simulated engine that is given none always says the same.
    session = gateway.session(group_id=group, sampling_params={"temperature": 1.0, "seed": number})
    messages: list[Any] = []
    answers = []
    with session.openai() as client:
        model = client.models.list().data[0].id
        for said in (task, "Say it once more, in other words."):
            messages.append({"role": "user", "content": said})
            answer = client.chat.completions.create(model=model, messages=messages, max_tokens=200).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            answers.append(answer.content or "")
    reward = fmean("?" not in text for text in answers)
    session.finish(reward=reward)
    return reward


def samples(gateway: GatewayClient, group: str) -> list[Sample]:
    """The rows of a group, each with the advantage of its rollout over the others of the group.

    A rollout that fell apart into several rows counts once in the baseline.
    """
    rows = list(gateway.rows(group_id=group, status="finished"))
    rewards = {row["rollout_id"]: row["reward"] or 0.0 for row in rows}
    mean, deviation = fmean(rewards.values()), pstdev(rewards.values())
    return [
        Sample(
            row["token_ids"],
            row["loss_mask"],
            row["logprobs"],
            {span["version"] for span in row["policy_versions"]},
            (rewards[row["rollout_id"]] - mean) / (deviation + 1e-6),
        )
        for row in rows
    ]


def train(batch: list[Sample]) -> float:
    """The loss at the first step, where the trained policy is still the one that sampled: no ratio, no clipping."""
    trained = sum(sum(sample.loss_mask) for sample in batch)
    return -sum(
        sample.advantage * logprob
        for sample in batch
        for logprob, mask in zip(sample.logprobs, sample.loss_mask, strict=True)
        if mask
    ) / max(trained, 1)


def begin(pool: ThreadPoolExecutor, gateway: GatewayClient, step: int) -> dict[str, list[Future[float]]]:
    """All rollouts of a step, on their way."""
    groups = {f"step-{step}/{number}": TASKS[number % len(TASKS)] for number in range(GROUPS)}
    return {
        group: [pool.submit(rollout, gateway, group, task, ROLLOUTS * step + number) for number in range(ROLLOUTS)]
        for group, task in groups.items()
    }


def learn(gateway: GatewayClient, step: int, running: dict[str, list[Future[float]]]) -> None:
    """Wait for the rollouts of a step, and train on their rows."""
    rewards = [one.result() for rollouts in running.values() for one in rollouts]
    batch = [sample for group in running for sample in samples(gateway, group)]
    for sample in batch:
        assert len(sample.token_ids) == len(sample.loss_mask) == len(sample.logprobs)
        assert sample.versions == {f"policy-{step}"}, sample.versions
    tokens = sum(sum(sample.loss_mask) for sample in batch)
    print(
        f"step {step}: {len(rewards)} rollouts in {len(running)} groups, mean reward {fmean(rewards):.2f}; "
        f"{len(batch)} rows, {tokens} tokens of policy-{step} trained, loss {train(batch):+.4f}"
    )
    gateway.free([state["session_id"] for group in running for state in gateway.sessions(group_id=group)])


@contextmanager
def gateway_at_hand() -> Iterator[GatewayClient]:
    """The gateway that the command line names, or one of our own."""
    if len(sys.argv) > 1:
        with GatewayClient(sys.argv[1]) as gateway:
            yield gateway
    else:
        with simulated_engine() as engine, launch(model="rollout-gateway/demo", engine=[engine]) as gateway:
            yield gateway


with gateway_at_hand() as gateway, ThreadPoolExecutor(GROUPS * ROLLOUTS) as pool:
    gateway.announce("policy-0")
    running = begin(pool, gateway, 0)
    for step in range(STEPS):
        learn(gateway, step, running)
        if step + 1 < STEPS:
            with gateway.paused(policy_version=f"policy-{step + 1}"):
                # Here the engines would load the weights. Agents may begin meanwhile: their turns wait, and are new.
                running = begin(pool, gateway, step + 1)
    print(
        f"the gateway holds {len(list(gateway.sessions()))} sessions, and announced {gateway.policy()['version']} last"
    )
