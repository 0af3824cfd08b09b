"""What stands between this machine and a first turn: findings, each with its remedy.

Every question is asked the way that the gateway will ask it: the same tokenizer, the same bridge, the same
streamed call. Nothing is recorded, and an engine samples one token for each of four calls.
"""

import asyncio
import re
import resource
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal

from gateway.core.types import Sampling, TurnRequest
from gateway.edge.admission import RankFinding, find_ranks
from gateway.edge.engine import Engine
from gateway.edge.probe import probed
from gateway.errors import ConfigError, EngineUnavailable, GatewayError
from gateway.render import registry
from gateway.render.options import NO_OPTIONS, Options
from gateway.render.translator import Translator
from gateway.wire.collector import Collector
from gateway.wire.engine_error import loaded
from gateway.wire.engine_facts import RANK_SINCE, dotted
from gateway.wire.generate import RANK_HEADER, encode_request
from gateway.wire.probe import PROCESSED_FLAG

Status = Literal["ok", "warn", "fail"]

ENOUGH_FILES = 4096
"""File descriptors: each turn under way holds two sockets."""
OLDEST, NEWEST = (0, 20), (0, 32)
"""The releases of vLLM that the gateway is tested with."""
_TOP_K = 20
"""Engines that return sampling masks refuse a call without one."""
_ASK_S, _SAMPLE_S = 10.0, 120.0
"""How long a question and a one-token call may take: the first call with logprobs compiles."""
_SCALE_OUT = "restart `vllm serve` with --enable-scale-out (0.30 and later have it off)"
_SET_KEY = "give the engine's API key with --engine-key"
_SEE_LOG = "see the engine's log"
_REMEDIES = {"--engine-key": _SET_KEY, "--enable-scale-out": _SCALE_OUT}
"""By what an error of the engine says."""
_TAKES_IDS = "/inference/v1/generate takes token ids"
_KEEP_EVIDENCE = "the evidence must reach the gateway as vLLM sends it: look for a proxy, or see its log"
_IS_IT_VLLM = "is this a vLLM of 0.20 or later? Give --engine its base URL, without /v1"

_CHOOSE = "choose one with --renderer, see docs/renderers.md"
_SAY_HOW = "say how the model writes calls with --tool-format, or choose another renderer with --renderer"
_NO_TOOLS = "for agents with tools, bring a renderer that takes them with --renderer module:factory"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    check: str
    """What was looked at."""
    status: Status
    """``warn`` serves, with a drawback; ``fail`` does not serve."""
    finding: str
    remedy: str = ""
    """What to do about it; empty when there is nothing to do."""


def check_files() -> Finding:
    """Whether this process may open as many sockets as many turns at once need."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= ENOUGH_FILES:
        return Finding("files", "ok", f"{'any number of' if limit < 0 else limit} file descriptors")
    drawback = f"{limit} file descriptors carry about {limit // 2} turns at once"
    return Finding("files", "warn", drawback, f"raise the limit before the start: ulimit -n {ENOUGH_FILES * 16}")


def check_model(
    model: str, name: str, spec: str, retention: str, *, bridgeless_ok: bool, options: Options = NO_OPTIONS
) -> tuple[list[Finding], list[int]]:
    """Findings about tokenizer and renderer, and the ids of a small prompt; none if there is no renderer."""
    try:
        tokenizer = registry.load_tokenizer(model, name)
    except ConfigError as error:
        return [Finding("model", "fail", str(error), "give --model a local folder, or a hub id that can be had")], []
    found = [Finding("model", "ok", f"{name}: a tokenizer of {len(tokenizer.get_vocab())} tokens")]
    try:
        renderers, _ = registry.renderers_for(
            spec, tokenizer, None, retention=retention, bridgeless_ok=True, options=options
        )
        translator = renderers.get({})
        prompt = renderers.small_prompt()
        refused = _NO_TOOLS if translator.call_ids == "refused" else ""
        found += [
            Finding("renderer", "ok", str(renderers.chosen)),
            _bridge_finding(registry.bridged_roles(renderers), "warn" if bridgeless_ok else "fail"),
            Finding("thinking", "ok", _retention(translator.thinking_retention)),
            Finding("tool_call_ids", "warn" if refused else "ok", registry.CALL_IDS[translator.call_ids], refused),
            _answers_finding(translator),
        ]
    except (ConfigError, GatewayError) as error:
        return [*found, Finding("renderer", "fail", str(error), _CHOOSE)], []
    return found, prompt


def _bridge_finding(bridged: set[str], never: Status) -> Finding:
    """Whether both kinds of messages extend what was sampled; `never` is the status if none does."""
    if len(bridged) == 2:
        return Finding("bridge", "ok", "user and tool messages extend what was sampled")
    if bridged:
        one, other = ("user", "tool") if "user" in bridged else ("tool", "user")
        drawback = f"{one} messages extend what was sampled; each {other} message starts a new row"
        return Finding("bridge", "warn", drawback, "--thinking-retention all bridges where the template allows it")
    drawback = "nothing extends what was sampled: every turn is rendered in full and is a row of its own"
    remedy = "name the model it was made from with --model-name, or take it with --allow-bridgeless"
    return Finding("bridge", never, drawback, remedy)


def _answers_finding(translator: Translator) -> Finding:
    """How answers are read."""
    finding = f"read as {translator.reads}"
    if translator.takes_tools:
        return Finding("answers", "ok", finding)
    return Finding("answers", "warn", f"{finding}; requests with tools are refused", _SAY_HOW)


def _retention(kept: str | None) -> str:
    if kept is None:
        return "the renderer does not say which reasoning of earlier turns stays in the prompt"
    return f"retention {kept!r}: which reasoning of earlier turns stays in the prompt"


async def check_engine(
    url: str, names: Sequence[str], prompt: Sequence[int], *, key: str = "", connect_timeout_s: float = 5.0
) -> list[Finding]:
    """Findings about one engine, which agents are expected to call by one of `names`; does not raise."""
    engine = Engine(url, key=key, connect_timeout_s=connect_timeout_s)
    questions = _Questions(engine, list(prompt) or [0])
    try:
        await questions.ask(names)
    except EngineUnavailable as error:
        remedy = "see the engine's log" if questions.found else "start the engine, or correct --engine"
        questions.add("reachable", "fail", error.message, remedy)
    finally:
        await engine.close()
    return questions.found


@dataclass(slots=True)
class _Questions:
    """The questions to one engine, and what they found."""

    engine: Engine
    prompt: list[int]
    found: list[Finding] = field(default_factory=list)
    version: tuple[int, ...] | None = None

    def add(self, check: str, status: Status, finding: str, remedy: str = "") -> None:
        self.found.append(Finding(f"{self.engine.url} {check}", status, finding, remedy))

    async def ask(self, names: Sequence[str]) -> None:
        """Ask everything; a question that hangs on a failed one is left out."""
        await self._version()
        await self._models(names)
        self._keep_alive()
        if await self._sample():
            await self._logprobs_mode()
            await self._rank()

    async def _get(self, path: str) -> tuple[int, object]:
        status, body = await self.engine.get(path, limit_s=_ASK_S)
        return status, loaded(body)

    async def _version(self) -> None:
        status, answer = await self._get("/version")
        text = answer.get("version") if isinstance(answer, dict) else None
        numbers = re.match(r"(\d+)\.(\d+)", text) if isinstance(text, str) else None
        if numbers is None:
            self.add("version", "warn", f"it does not say its version ({status})", _IS_IT_VLLM)
            return
        self.version = release = (int(numbers[1]), int(numbers[2]))
        tested = f"{dotted(OLDEST)} to {dotted(NEWEST)}"
        if release < OLDEST:
            self.add("version", "fail", f"vLLM {text} cannot take token ids", f"use vLLM {tested}")
        elif release > NEWEST:
            self.add("version", "warn", f"vLLM {text} is newer than what was tested", f"{tested} were tested")
        else:
            self.add("version", "ok", f"vLLM {text}")

    async def _models(self, names: Sequence[str]) -> None:
        status, answer = await self._get("/v1/models")
        if status in (401, 403):
            self.add("models", "fail", f"it wants an API key ({status})", _SET_KEY)
            return
        cards = answer.get("data") if isinstance(answer, dict) else None
        cards = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
        lengths = [card.get("max_model_len") for card in cards]
        served = ", ".join(str(card.get("id")) for card in cards)
        if not any(type(length) is int and length > 0 for length in lengths):
            self.add("models", "fail", f"/v1/models does not say max_model_len ({status})", _IS_IT_VLLM)
        elif {card.get("id") for card in cards} & set(names):
            self.add("models", "ok", f"it serves {served}, {min(filter(None, lengths))} tokens of context")
        else:
            remedy = f"let agents ask for that model, or restart `vllm serve` with --served-model-name {names[-1]}"
            self.add("models", "warn", f"it serves {served}, and not {names[-1]}", remedy)

    def _keep_alive(self) -> None:
        if self.engine.reuses:
            self.add("keep-alive", "ok", "a second request went over the same connection")
        else:
            remedy = "look for a proxy that closes connections between here and the engine"
            self.add("keep-alive", "warn", "each request needs a new connection", remedy)

    async def _sample(self) -> bool:
        """Whether one token can be sampled as a turn would; evidence is looked at, too."""
        collector, answers = Collector(), False
        try:
            async for payload in self._generated():
                answers = True
                collector.feed(payload)
            logprob = collector.completion().logprobs[0]
        except GatewayError as error:
            if answers:
                self.add("scale-out", "ok", _TAKES_IDS)
                self.add("logprobs", "fail", error.message, _KEEP_EVIDENCE)
            else:
                remedy = next((remedy for sign, remedy in _REMEDIES.items() if sign in error.message), _SEE_LOG)
                self.add("scale-out", "fail", f"/inference/v1/generate: {error.message}", remedy)
            return False
        self.add("scale-out", "ok", _TAKES_IDS)
        self.add("logprobs", "ok", f"one token came with its logprob, {logprob:.3f}")
        return True

    async def _logprobs_mode(self) -> None:
        """Whether its logprobs are those of what is sampled from."""
        await self.engine.refresh()  # it tells the version, too
        mode, reason, *_ = await probed(self.engine, self.prompt, _SAMPLE_S)
        if mode == "processed":
            self.add("logprobs-mode", "ok", "processed: logprobs are those of what is sampled from")
            return
        drawback = (
            f"{mode}{reason and f' ({reason})'}: logprobs are exact at temperature 1 only, with nothing truncated"
        )
        self.add("logprobs-mode", "warn", drawback, f"restart `vllm serve` with {PROCESSED_FLAG}")

    async def _rank(self) -> None:
        """Whether a call can be sent to one data-parallel rank: an engine that reads the header refuses this one."""
        found = await find_ranks(self.engine, self.prompt, _ASK_S, thorough=True)
        if found.refusal is not None:
            self._refused_rank(found.refusal, found)
            return
        old = self.version is not None and self.version < RANK_SINCE
        why = f" before vLLM {dotted(RANK_SINCE)}, and what is behind this URL counts as one rank" if old else ""
        remedy = "with one rank behind this URL nothing is lost; else give each rank a URL of its own"
        self.add("ranks", "warn", f"{RANK_HEADER} is ignored{why}", remedy)

    def _refused_rank(self, error: GatewayError, found: RankFinding) -> None:
        if "out of range" not in error.message and error.status != 400:
            self.add("ranks", "warn", f"an unknown rank was answered with: {error.message}", _SEE_LOG)
            return
        used = self.engine.declared_ranks or found.ranks or 1
        count = found.behind or used
        finding = f"{RANK_HEADER} is honoured; ranks here: {count}, used: {used}"
        grade: Status = "ok" if count == used else "warn" if count > used else "fail"
        self.add("ranks", grade, finding, "" if grade == "ok" else f"write --engine '{self.engine.url}#dp={count}'")

    async def _generated(self) -> AsyncGenerator[bytes]:
        """What one call for one token says, as a turn would make it, with a `top_k` where masks need one.

        Raises:
            GatewayError: see `Engine.generate`; or it took too long.
        """
        request = TurnRequest((), sampling=Sampling(top_k=_TOP_K))
        body = encode_request(self.prompt, request, max_tokens=1, stop_ids=())
        try:
            async with asyncio.timeout(_SAMPLE_S):
                async with aclosing(self.engine.generate(body, request_id="check")) as payloads:
                    async for payload in payloads:
                        yield payload
        except TimeoutError:
            raise EngineUnavailable(f"no answer within {_SAMPLE_S:.0f} s") from None
