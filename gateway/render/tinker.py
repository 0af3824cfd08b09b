"""The backend over tinker-cookbook's renderers, and Fireworks' that are registered with it (0.6.1)."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from gateway.errors import BadRequest, ConfigError, RendererError
from gateway.render import fireworks
from gateway.render.bridge import CertifiedBridge, Proof
from gateway.render.certification import AUDIT_INTERVAL, Certifications
from gateway.render.formats import CALL_FORMATS, FORMATS
from gateway.render.markers import Markers
from gateway.render.package import imported
from gateway.render.parsed import FoundMessage
from gateway.render.protocol import MessageDicts, ParsedResponse, Tokenizer
from gateway.render.recollection import Recollection
from gateway.render.stop_ids import length_to_stop
from gateway.render.stream_parser import TokenParser
from gateway.render.tinker_messages import CookbookMessage, cookbook_messages, found_message, with_tools

MODELS = Path(__file__).parent / "tinker_models.json"
"""Which renderer serves which model, by package and version; written by ``tools/tinker_models.py``."""
_V31 = replace(
    CALL_FORMATS["deepseek-json"], headers=FORMATS["deepseek-v3"].headers, texts=FORMATS["deepseek-v3"].texts
)
_FORMS = (
    ("qwen3_5", FORMATS["qwen3.5"]),
    ("qwen3_6", FORMATS["qwen3.6"]),
    ("qwen3_8", FORMATS["qwen3.8"]),
    ("qwen3", FORMATS["qwen3"]),
    ("deepseekv3", _V31),
    ("deepseek_v4", FORMATS["deepseek-v4"]),
    ("kimi_k2", FORMATS["kimi-k2"]),
    ("nemotron3", FORMATS["nemotron-3"]),
    ("glm", FORMATS["glm-5.3"]),
    ("minimax_m2", FORMATS["minimax-m2"]),
)
"""How those models write whose renderers' names begin so: the first that fits."""


_THOUGHT: MessageDicts = [
    {"role": "user", "content": "?"},
    {"role": "assistant", "content": "ok", "reasoning_content": "hm"},
]
"""What renderers of models that think can write, and others refuse."""


@cache
def models() -> dict[str, Any]:
    """The data file: by package its version, the renderers of models, and those of names that begin alike."""
    return cast("dict[str, Any]", json.loads(MODELS.read_text()))


def name_for(model: str) -> str | None:
    """The renderer that is recommended for a model: by its name, else by the longest beginning of one."""
    packages = models().values()
    for package in packages:
        if model in package["models"]:
            return cast(str, package["models"][model])
    fitting = [
        (len(start), name)
        for package in packages
        for start, name in package["prefixes"].items()
        if model.startswith(start)
    ]
    return max(fitting)[1] if fitting else None


def is_fireworks(name: str) -> bool:
    """Whether a renderer is of Fireworks' cookbook only."""
    package = models()["fireworks"]
    return name in package["models"].values() or name in package["prefixes"].values()


class TinkerRenderer:
    """Fulfils `gateway.render.protocol.Renderer` by one of the cookbook's renderers; bridges what is certified.

    `retention` ``all`` keeps the thoughts of earlier answers, which most of the renderers strip; with ``None`` such
    turns are not bridged.

    Raises:
        PackageAbsent: the cookbook is not installed, or Fireworks' is not, which has the renderer.
        ConfigError: one of them is broken, or there is no renderer of that name.
        RendererError: the renderer cannot be made for this tokenizer, or never ends a turn.
    """

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        *,
        model: str,
        image_processor: object = None,
        retention: str | None = None,
        audit_interval: int = AUDIT_INTERVAL,
        recollection: Recollection | None = None,
    ) -> None:
        self.effective_thinking_retention = retention or "template"
        self._tokenizer = tokenizer
        package = _cookbook()
        self.wrapped = _made(package, name, tokenizer, image_processor, model)
        """The cookbook's own."""
        self._writer = _Writer(package, self.wrapped, tokenizer)
        self._stops, self.stop_strings = _stops(self.wrapped.get_stop_sequences(), tokenizer)
        if not self._stops:
            end = getattr(tokenizer, "eos_token_id", None)
            if end is None:
                raise RendererError(f"{name} ends turns with {self.stop_strings}, and the tokenizer has no end of text")
            self._stops = (end,)
        self.markers = _markers(name, tokenizer, self._stops)
        """What answers are read by as they come; ``None`` where they can only be read as a whole."""
        self.certifications: Certifications[Proof] = Certifications(audit_interval)
        """Which shapes of turns are bridged."""
        self._bridge = CertifiedBridge(
            self._writer,
            self._stops,
            self.certifications,
            retention=retention,
            parse=self._read,
            recollection=recollection,
        )

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """The ids of a history; with `add_generation_prompt`, up to where the model's answer begins.

        Raises:
            MultimodalUnsupported: a part of a message is neither text nor thought.
            BadRequest: there are tools, and the renderer knows none; or it refuses the messages.
        """
        try:
            ids = self._writer.render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt)
        except json.JSONDecodeError as error:  # some write the arguments of a call as they stand, others read them
            raise BadRequest(
                f"messages: the arguments of a tool call are no JSON: {error}", param="messages"
            ) from error
        except self._writer.refusal as error:
            raise BadRequest(f"messages: {error}", param="messages") from error
        if add_generation_prompt:
            self._bridge.remember(ids, messages, tools)
        return ids

    def parse_response(self, token_ids: list[int]) -> FoundMessage:
        """The message that a completion says, up to its first stop id; one that is cut is read as if it ended there."""
        end = length_to_stop(token_ids, self._stops)
        said = token_ids[:end]
        # The cookbook does not look into what has no end, and would give thoughts and calls as text.
        closed = said if self.stop_strings else [*said, *(token_ids[end : end + 1] or self._stops[:1])]
        try:
            message, _ = self.wrapped.parse_response(closed)
            return found_message(cast(CookbookMessage, message))
        except Exception:  # noqa: BLE001  # of many parsers; what was sampled is not lost to a fault of one
            return FoundMessage(self._tokenizer.decode(said), flags=("unparsed",))

    def _read(self, token_ids: list[int], tools: MessageDicts | None, prompt_ids: list[int]) -> ParsedResponse:
        """A completion as the gateway reads it, so that both bridge alike: a marker in letters is none, say."""
        if self.markers is None:
            return self.parse_response(token_ids)
        parser = TokenParser(self.markers, tools, prompt_ids=prompt_ids)
        parser.feed(token_ids)
        return parser.finish()

    def get_stop_token_ids(self) -> list[int]:
        """The ids that end the model's turn; beside the texts in `stop_strings`, the end of all text."""
        return [*self._stops]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: MessageDicts,
        *,
        tools: MessageDicts | None = None,
        history: MessageDicts | None = None,
    ) -> list[int] | None:
        """The previous ids and what the renderer writes for the new messages, where that is certified."""
        return self._bridge.bridge(previous_prompt_ids, previous_completion_ids, new_messages, tools, history)


class _Writer:
    """Writes histories by one of the cookbook's renderers."""

    def __init__(self, package: Any, own: Any, tokenizer: Tokenizer) -> None:
        self._package, self._own = package, own
        self.decode = tokenizer.decode
        self.refusal: type[Exception] = package.RendererError
        """Raised where the renderer knows no way to write a history."""
        self._takes_thoughts = True
        self._takes_thoughts = self._can_write(_THOUGHT)

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        call = self._package.ToolCall.model_validate
        given = cookbook_messages(messages, call, takes_thoughts=self._takes_thoughts)
        if tools:
            given = with_tools(given, tools, self._own.create_conversation_prefix_with_tools)
        if add_generation_prompt:
            return list(self._own.build_generation_prompt(given).to_ints())
        # All messages, since what is to be trained on is held against prompts, and not every history has one.
        example, _ = self._own.build_supervised_example(given, train_on_what=self._package.TrainOnWhat.ALL_MESSAGES)
        return list(example.to_ints())

    def _can_write(self, messages: MessageDicts) -> bool:
        try:
            return bool(self.render_ids(messages))
        except Exception:  # noqa: BLE001  # of many renderers, which raise what they like
            return False


def _cookbook() -> Any:  # the package is optional and brings no types that we could hold on to
    return imported("tinker_cookbook.renderers", called="tinker-cookbook", remedy="pip install tinker-cookbook")


def _made(package: Any, name: str, tokenizer: Tokenizer, image_processor: object, model: str) -> Any:
    if is_fireworks(name):
        fireworks.register(name)
        if not package.is_renderer_registered(name):
            version = models()["fireworks"]["version"]
            raise ConfigError(f"Fireworks' cookbook registers no renderer {name!r} (known of version {version})")
    try:
        made = package.get_renderer(name, tokenizer, image_processor, model_name=model)
        made.get_stop_sequences()  # some look for their tokens only then
    except package.RendererError as error:
        raise ConfigError(f"--renderer-name {name}: {error}") from error
    except Exception as error:
        raise RendererError(f"{name} cannot be made: {type(error).__name__}: {error}") from error
    return made


def _stops(given: Sequence[str | int], tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Stops that are tokens, by id, and those that are longer texts."""
    ids: list[int] = []
    strings: list[str] = []
    for stop in given:
        spelt = tokenizer.encode(stop, add_special_tokens=False) if isinstance(stop, str) else [stop]
        if len(spelt) == 1:
            ids += spelt
        else:
            strings.append(cast(str, stop))
    return tuple(ids), tuple(strings)


def _markers(name: str, tokenizer: Tokenizer, stops: Sequence[int]) -> Markers | None:
    form = next((form for start, form in _FORMS if name.startswith(start)), None)
    if form is None:
        return None
    try:
        return Markers(form, tokenizer, stops)
    except ValueError:  # a tokenizer of another family: its renderer was asked for by name
        return None
