"""The settings: one list of them. Where they come from is for `gateway.settings_sources`; here nothing is looked up."""

import re
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated, Literal, Self

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from gateway.core.side_arrays import SideArrayName
from gateway.render.options import Options, config_of
from gateway.wire.engines import URL_WANTED, is_engine_url
from gateway.wire.generate import STREAM_INTERVAL_TOKENS
from gateway.wire.noise import USUAL_KEYS, USUAL_PREFIXES
from gateway.wire.score import TOKENS_IN_FLIGHT


def _engine_url(url: str) -> str:
    if not is_engine_url(url):
        raise ValueError(URL_WANTED)
    return url


Url = Annotated[str, AfterValidator(_engine_url)]

Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]

_TAG_HEADERS = (
    "x-session-id",
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "x-codex-turn-metadata",
    "x-codex-window-id",
    "x-client-request-id",
)
"""What coding agents say about a call: who asks, for whom, and in which window."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_KEY_WORDS = {
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "key",
    "apikey",
    "jwt",
    "password",
    "secret",
    "token",
}
_TOOL_FIELDS = {"type", "function", "name", "description", "parameters"}


class Settings(BaseModel):
    """How one gateway runs. Each field is a flag of ``gateway serve``, a ``GATEWAY_`` variable, a key of its file.

    Made in code it has what it is given, and defaults: the environment is not read.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        protected_namespaces=(),
        hide_input_in_errors=True,  # it may be a key, or all that was said
    )

    model: str
    """Where the tokenizer is found: a local folder, a hub id, or rollout-gateway/demo for the one that comes along."""
    model_name: str | None = None
    """The name that renderers are matched on; `model` when not given."""
    engine: tuple[Url, ...] = ()
    """Base URL of a vLLM server; repeatable, and a list with commas in the environment. How many data-parallel ranks it
    has is found out, or said by #dp=N at its end. Others are added while the gateway runs: `gateway engines`."""
    engine_key: SecretStr = SecretStr("")
    """The API key that the engines want, and the server at `render_url`."""
    renderer: str = "auto"
    """What turns messages into ids: ``auto``, ``prime``, ``tinker``, ``template``, ``remote``, ``demo``, or
    ``module:factory``, a function that takes the tokenizer."""
    renderer_name: str | None = None
    """Which of the backend's renderers, where the model's name does not say: prime's family or tinker's name."""
    renderer_config: str | None = None
    """Options of prime's renderer as a JSON object, or a table of the file, as its typed configuration has them."""
    render_url: Url | None = None
    """Base URL of the vLLM server whose template and tokenizer the `remote` renderer asks; the first engine's if not
    given."""
    tool_format: str | None = None
    """How the model writes tool calls, for the `template` and `remote` renderers, where its template does not show."""
    bridge_audit_interval: int = Field(default=50, ge=1)
    """One in how many bridges of a kind that was certified is held against a full render; 1 holds all."""
    thinking_retention: Literal["all", "tool_cycle", "template"] = "all"
    """Which reasoning of earlier turns stays in bridged prompts: `all` that was sampled, that of the running
    `tool_cycle`, or what the model's own `template` keeps. A full render always does as the template."""
    allow_bridgeless: bool = False
    """Accept a renderer that can never bridge, so that every turn is rendered in full."""
    store: Literal["memory"] = "memory"
    """Where turns are kept: `memory`, as long as the process."""
    host: str = "127.0.0.1"
    """Address to listen on; beyond loopback a key is needed."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port to listen on; 0 takes a free one, and the ready line says which."""
    agent_key: SecretStr = SecretStr("")
    """Key that opens the agents' routes."""
    admin_key: SecretStr = SecretStr("")
    """Key that opens every route."""
    insecure: bool = False
    """Serve beyond loopback without a key."""
    max_body_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """Largest request body; long sessions re-send everything each turn."""
    matching: Literal["strict", "canonical", "role_content"] = "canonical"
    """What a client may have changed in an answer of ours that it sends back: nothing (`strict`), what is known to be
    safe (`canonical`), or all but its text (`role_content`). Anything else makes a branch."""
    noise_prefix: tuple[Text, ...] = USUAL_PREFIXES
    """How system text begins that is left out of every prompt, since it changes from turn to turn; repeatable, and a
    list with commas in the environment. Given, it replaces the default; empty, nothing is left out."""
    noise_key: tuple[Text, ...] = USUAL_KEYS
    """Field that is left out of tools and their functions; a list like `noise_prefix`."""
    tag_header: tuple[Text, ...] = _TAG_HEADERS
    """Request header that is kept as a tag of the turn, under its name; a list like `noise_prefix`. Headers that
    carry keys are refused."""
    side_arrays: tuple[SideArrayName, ...] = ()
    """What is kept of each turn beside ids and logprobs, where the engine says it: `routed_experts` (vLLM's
    --enable-return-routed-experts) and `sampling_mask` (its --return-sampling-mask); a list like `noise_prefix`."""
    sampling: Literal["agent", "locked"] = "agent"
    """Whose temperature and truncation count: the `agent`'s, or nobody's (`locked`: temperature 1, nothing truncated).
    Penalties, `logit_bias` and lengths are the agent's in both; each turn says how it was sampled, and what the agent
    had asked for instead."""
    client_seed: Literal["keep", "drop"] = "drop"
    """What becomes of seeds that agents send: with equal seeds the members of a group would be the same."""
    logprobs: Literal["warn", "require-exact"] = "warn"
    """What becomes of turns whose logprobs would not be those of the distribution that they are sampled from, as
    vLLM's are by default at any temperature but 1: they are marked (`warn`), or refused (`require-exact`)."""
    max_context_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens of one answer in a session; the model's own context where not given."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """Sampled tokens in one session; no bound where not given."""
    max_turns: int | None = Field(default=None, ge=1)
    """Turns of one session; no bound where not given."""
    tombstone_ttl_s: float = Field(default=86_400.0, ge=0)
    """How long the id of a deleted session is refused."""
    score_tokens_in_flight: int = Field(default=TOKENS_IN_FLIGHT, ge=1)
    """How many tokens of rows are scored at once, over all engines; further rows wait."""
    connect_timeout_s: float = Field(default=5.0, gt=0)
    """How long connecting to an engine may take. Sampling itself has no limit."""
    health_interval_s: float = Field(default=5.0, gt=0, le=3600)
    """How often an engine is asked whether it is there, how much it has to do, and which ranks and models it has."""
    rank_turns: int = Field(default=1024, ge=1)
    """Turns at once on a rank; others wait here, where their order can be chosen."""
    rank_prefill_tokens: int = Field(default=262_144, ge=1)
    """Prompt tokens that a rank is given to prefill at once, so that a release after a pause is no herd; a longer
    prompt goes alone."""
    queue_turns: int = Field(default=4096, ge=0)
    """Turns that may wait for a rank; more are refused with 503. Any number may be held by a pause."""
    queue_wait_s: float = Field(default=600.0, gt=0)
    """How long a turn may wait for a rank before it is refused with 503; pauses do not count."""
    resident_share: float | None = Field(default=None, gt=0)
    """How much of a rank's KV cache the sessions there may fill, idle ones too, before new ones wait: 1 is all of it.
    Each counts with what it will probably come to, by the sessions that have ended.
    By default new sessions never wait, since of those that nobody finishes it is not known whether they come back."""
    resident_idle_s: float = Field(default=300.0, gt=0)
    """How long after its last turn a session still counts as one that fills a rank's KV cache."""
    resume_attempts: int = Field(default=5, ge=0)
    """How often an answer that an engine cut short is carried on from its tokens, or made anew where it cannot be and
    nothing of it was sent. With 0 the turn fails."""
    resume_timeout_s: float = Field(default=600.0, gt=0)
    """How long a cut answer waits for engines to carry it on, over all its cuts; pauses do not count."""
    engine_stall_s: float = Field(default=120.0, gt=0)
    """How long an engine may say nothing of an answer that it has begun before that is carried on elsewhere."""
    cache_salt: Literal["start", "current", "none"] = "start"
    """Which policy version keeps prefix caches apart: that at the `start` of a session or its group, the `current` one
    (each context is prefilled anew after each weight sync), or `none`."""
    engine_control: bool = False
    """Drive the engines' own /pause and /resume with `/admin/pause` and `/admin/resume` (VLLM_SERVER_DEV_MODE=1)."""
    pause_lease_s: float = Field(default=600.0, gt=0, le=86_400)
    """How long a pause lasts that nobody ends or renews, unless it says otherwise itself."""
    drain_timeout_s: float = Field(default=25.0, ge=0)
    """How long calls may go on after SIGTERM before they are broken off. Kubernetes kills after 30 s, unless it is told
    otherwise: what is broken off needs some seconds to be said."""
    exit_with_parent: bool = False
    """End when the process that started it ends, however it does, be it behind a shell. What is in flight then has a
    second, since nobody is left to read it."""
    abort_quiet_s: float = Field(default=0.0, ge=0, le=600)
    """How long an engine's call is let go on before it is aborted, unless ids have come: for disaggregated engines,
    where an abort during the transfer of the KV cache does harm."""
    disconnect_grace_s: float = Field(default=0.0, ge=0, le=86_400)
    """How long a turn goes on when its client has left, so that a retry can join it. With 0 it is stopped at once."""
    keep_alive_s: float = Field(default=15.0, gt=0, le=3600)
    """How long a stream may be silent before it is sent a comment, so that nothing on the way takes it for dead."""
    flush_interval_ms: float | None = Field(default=None, ge=0, le=10_000)
    """How long a stream gathers what is said before it sends it on; by default not at all while few streams are
    open, and 50 ms while 256 or more are."""
    stream_interval_tokens: int = Field(default=STREAM_INTERVAL_TOKENS, ge=1, le=1024)
    """How many ids the engine puts into one event, where it can (vLLM 0.27 and later)."""
    stream_buffer_bytes: int = Field(default=256 * 1024, ge=192 * 1024)
    """What may wait for a client that reads its stream slowly; beyond it the engine waits too."""
    stream_stall_s: float = Field(default=60.0, gt=0, le=86_400)
    """How long a client may take nothing of its answer, streamed or not, before it counts as gone."""
    retry_window_s: float = Field(default=900.0, ge=0, le=86_400)
    """How long after its end a turn can answer a retry; clients that time out wait for up to ten minutes before."""
    retry_window_calls: int = Field(default=16_384, ge=0)
    """How many ended calls are kept for retries, over all sessions."""

    @property
    def renderer_options(self) -> Options:
        """What is said of the renderer beside which one it is."""
        first = self.engine[0] if self.engine and self.renderer == "remote" else None
        url = self.render_url or first
        return Options(
            name=self.renderer_name,
            config=config_of(self.renderer_config) if self.renderer_config is not None else None,
            tool_format=self.tool_format,
            render_url=url.partition("#")[0] if url else None,
            api_key=self.engine_key.get_secret_value(),
            audit_interval=self.bridge_audit_interval,
        )

    @field_validator("renderer_config", mode="before")
    @classmethod
    def _as_json(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        try:
            return orjson.dumps(value).decode()
        except TypeError as error:
            raise ValueError(f"cannot be said as JSON: {error}") from None

    @field_validator("renderer_config")
    @classmethod
    def _is_an_object(cls, text: str | None) -> str | None:
        if text is not None:
            config_of(text)
        return text

    @field_validator("engine", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return value.replace(",", " ").split() if isinstance(value, str) else value

    @field_validator("noise_prefix", "noise_key", "tag_header", "side_arrays", mode="before")
    @classmethod
    def _split_at_commas(cls, value: object) -> object:
        given = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
        return [item for item in given if item != ""] if isinstance(given, list | tuple) else given

    @field_validator("noise_key")
    @classmethod
    def _without_what_makes_a_tool(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        if needed := _TOOL_FIELDS.intersection(keys):
            raise ValueError(f"{min(needed)} is what a tool consists of, no noise: name another field")
        return keys

    @field_validator("tag_header")
    @classmethod
    def _without_keys(cls, headers: tuple[str, ...]) -> tuple[str, ...]:
        for name in headers:
            if not _HEADER.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a header of at most 64 characters")
            if any(word.removesuffix("s") in _KEY_WORDS for word in re.split("[-_.]", name.lower())):
                raise ValueError(f"{name} may carry a key, and tags are shown: say it with x-gateway-tag instead")
        return tuple(name.lower() for name in headers)

    @model_validator(mode="after")
    def _served_beyond_loopback_with_a_key_only(self) -> Self:
        if not (self.insecure or self.agent_key or self.admin_key or _is_loopback(self.host)):
            raise _at_odds("host", f"{self.host} is beyond loopback: set --admin-key or --agent-key, or --insecure")
        return self

    @model_validator(mode="after")
    def _locked_without_masks(self) -> Self:
        if self.sampling == "locked" and "sampling_mask" in self.side_arrays:
            raise _at_odds(
                "side_arrays",
                "--sampling locked truncates nothing: a sampling_mask would hold the whole vocabulary, and engines "
                "that return one refuse that; leave it out of --side-arrays",
            )
        return self


def _at_odds(setting: str, why: str) -> PydanticCustomError:
    """What is wrong with a setting because of another."""
    return PydanticCustomError("at_odds", "{why}", {"setting": setting, "why": why})


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
