"""How families of models write thoughts and tool calls: data for `gateway.render.stream_parser`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType

from gateway.render import call_bodies
from gateway.render.call_bodies import BodyReader


class Mark(Enum):
    """What a marker does."""

    THINK = auto()
    THINK_END = auto()
    SECTION = auto()
    """Opens a group of calls."""
    SECTION_END = auto()
    CALL = auto()
    CALL_END = auto()
    BARE = auto()
    """Opens a call that is its own text, where it begins the answer; always text, though it may be a token."""


@dataclass(frozen=True, slots=True)
class Edges:
    """What a template writes around what is said, and therefore is not said; ``None`` is all white space."""

    start: str | None = None
    """In front of the answer."""
    thought: str | None = None
    """On both sides within a thought."""
    after_thought: str | None = None
    call: str | None = None
    """On both sides of a call; one character at most."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """A call as it is written: `before`, the name, `between`, the arguments, `after`."""

    before: str
    between: str
    after: str
    style: str = "json"
    """How the arguments are written, in xgrammar's words."""
    name_is_json: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """How one family writes."""

    headers: tuple[str, ...]
    """What stands in a prompt where the assistant begins to speak; each begins with a control token."""
    read_call: BodyReader
    call: CallForm | None
    """A call with all its markers, as one that is forced is written; ``None`` where none can be."""
    tokens: Mapping[str, Mark]
    """Markers that must be tokens of the vocabulary."""
    texts: Mapping[str, Mark] = field(default_factory=dict)
    """Markers that are text, unless the vocabulary has them as tokens. None may begin another."""
    ends_thought: Mark | None = None
    """The marker that ends a thought which never closes."""
    is_open_ended: bool = False
    """Calls have no closing marker: one ends where the next begins, or with the answer."""
    bare_sign: str = ""
    """What a text that begins as a bare call has in it, if it was meant as one."""
    edges: Edges = Edges()
    compared_ids: int = 16_384
    """How long an answer the renderer's own parse is asked for. Some take time that grows with the square of it, on the
    thread on which everything is rendered: prime's for DeepSeek-V4 0.9 s at 2,000 ids, for Qwen3.5 2 s at 16,000."""


_HERMES = CallForm('<tool_call>\n{"name": ', ', "arguments": ', "}\n</tool_call>", name_is_json=True)
_XML = CallForm("<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "qwen_xml")
_FENCED = CallForm(
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    "\n```json\n",
    "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
)
_DSML_CALL = CallForm(
    '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="',
    '">\n',
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "deepseek_xml",
)
_CHATML = ("<|im_start|>assistant\n",)
_THINK_AND_CALL = {
    "<think>": Mark.THINK,
    "</think>": Mark.THINK_END,
    "<tool_call>": Mark.CALL,
    "</tool_call>": Mark.CALL_END,
}
_THINK_IN_LETTERS = {"<think>": Mark.THINK, "</think>": Mark.THINK_END}
_SECTIONS = {
    "<｜tool▁calls▁begin｜>": Mark.SECTION,
    "<｜tool▁calls▁end｜>": Mark.SECTION_END,
    "<｜tool▁call▁begin｜>": Mark.CALL,
    "<｜tool▁call▁end｜>": Mark.CALL_END,
}
_DSML = {
    "<｜DSML｜tool_calls>": Mark.SECTION,
    "<｜DSML｜toolcalls>": Mark.SECTION,  # this and the next are slips of the model that vLLM reads, too
    "<｜DSML｜tool>": Mark.SECTION,
    "</｜DSML｜tool_calls>": Mark.SECTION_END,
    "<｜DSML｜invoke": Mark.CALL,
    "</｜DSML｜invoke>": Mark.CALL_END,
}

DEMO = Format(
    _CHATML, call_bodies.hermes, _HERMES, _THINK_AND_CALL, edges=Edges("", "\n", "\n\n", "\n"), compared_ids=0
)
"""The demo's own, whose renderer writes what it reads: text is kept to the last space. It has no other parse."""
_QWEN3 = Format(_CHATML, call_bodies.hermes, _HERMES, _THINK_AND_CALL, ends_thought=Mark.CALL)
_QWEN35 = Format(_CHATML, call_bodies.xml, _XML, _THINK_AND_CALL, ends_thought=Mark.CALL, compared_ids=4096)
_DEEPSEEK = Format(
    ("<｜Assistant｜>", "<｜tool▁outputs▁end｜>"),
    call_bodies.fenced,
    _FENCED,
    tokens=_SECTIONS,
    texts=_THINK_IN_LETTERS,
)
_DEEPSEEK4 = Format(
    ("<｜Assistant｜>",),
    call_bodies.dsml,
    _DSML_CALL,
    tokens=_THINK_IN_LETTERS,
    texts=_DSML,
    ends_thought=Mark.SECTION,
    compared_ids=512,
)

_GLM = Format(("<|assistant|>",), call_bodies.keyed, None, _THINK_AND_CALL, ends_thought=Mark.CALL)
_KIMI_CALLS = {
    "<|tool_calls_section_begin|>": Mark.SECTION,
    "<|tool_calls_section_end|>": Mark.SECTION_END,
    "<|tool_call_begin|>": Mark.CALL,
    "<|tool_call_end|>": Mark.CALL_END,
}
_KIMI = Format(
    ("<|im_assistant|>assistant<|im_middle|>",),
    call_bodies.numbered,
    None,
    _KIMI_CALLS,
    _THINK_IN_LETTERS,
    ends_thought=Mark.SECTION,
)
_MINIMAX = Format(
    ("]~b]ai\n",),
    call_bodies.invoked,
    None,
    {**_THINK_IN_LETTERS, "<minimax:tool_call>": Mark.SECTION, "</minimax:tool_call>": Mark.SECTION_END},
    {"<invoke": Mark.CALL, "</invoke>": Mark.CALL_END},
    ends_thought=Mark.SECTION,
)
_LLAMA = Format(
    ("<|start_header_id|>assistant<|end_header_id|>\n\n",),
    call_bodies.llama,
    CallForm('{"name": ', ', "parameters": ', "}", name_is_json=True),
    {},
    {"{": Mark.BARE, "<|python_tag|>": Mark.CALL},
    is_open_ended=True,
    bare_sign='"parameters"',
)

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        **dict.fromkeys(("qwen3", "qwen3-vl"), _QWEN3),
        **dict.fromkeys(("qwen3.5", "qwen3.6", "qwen3.8", "prime-qwen3"), _QWEN35),
        **dict.fromkeys(("nemotron-3", "nemotron-3-ultra", "nemotron-3.5"), _QWEN35),
        **dict.fromkeys(("glm-4.5", "glm-5", "glm-5.1", "glm-5.3"), _GLM),
        **dict.fromkeys(("kimi-k2", "kimi-k2.5"), _KIMI),
        "minimax-m2": _MINIMAX,
        "llama-3": _LLAMA,
        **dict.fromkeys(("deepseek-v3", "deepseek-r1"), _DEEPSEEK),
        "deepseek-v4": _DEEPSEEK4,
    }
)
"""By the names of prime's renderers."""


_IN_TAGS = {"<tool_call>": Mark.CALL, "</tool_call>": Mark.CALL_END}
_HEADLESS: tuple[str, ...] = ()
CALL_FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "hermes": Format(_HEADLESS, call_bodies.hermes, _HERMES, {}, _IN_TAGS, ends_thought=Mark.CALL),
        "qwen-xml": Format(_HEADLESS, call_bodies.xml, _XML, {}, _IN_TAGS, ends_thought=Mark.CALL),
        "seed-xml": Format(
            _HEADLESS, call_bodies.xml, None, {}, {"<seed:tool_call>": Mark.CALL, "</seed:tool_call>": Mark.CALL_END}
        ),
        "glm": Format(_HEADLESS, call_bodies.keyed, None, {}, _IN_TAGS, ends_thought=Mark.CALL),
        "kimi": replace(_KIMI, headers=_HEADLESS),
        "minimax": replace(_MINIMAX, headers=_HEADLESS),
        "deepseek-fenced": replace(_DEEPSEEK, headers=_HEADLESS),
        "deepseek-json": Format(_HEADLESS, call_bodies.separated, None, _SECTIONS),
        "dsml": replace(_DEEPSEEK4, headers=_HEADLESS),
        "mistral": Format(_HEADLESS, call_bodies.mistral, None, {}, {"[TOOL_CALLS]": Mark.CALL}, is_open_ended=True),
        "granite": Format(_HEADLESS, call_bodies.array, None, {}, {"<|tool_call|>": Mark.CALL}, is_open_ended=True),
        "phi-4": Format(
            _HEADLESS, call_bodies.array, None, {}, {"<|tool_call|>": Mark.CALL, "<|/tool_call|>": Mark.CALL_END}
        ),
        "jamba": Format(
            _HEADLESS, call_bodies.array, None, {}, {"<tool_calls>": Mark.CALL, "</tool_calls>": Mark.CALL_END}
        ),
        "llama-json": replace(_LLAMA, headers=_HEADLESS),
    }
)
"""By names of our own: how calls are written. Where the assistant begins to speak, and how a model thinks, its template
and its vocabulary tell, see `gateway.render.discovery`."""
