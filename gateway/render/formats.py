"""How families of models write thoughts and tool calls: data for `gateway.render.stream_parser`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    call: CallForm
    """A call with all its markers, as one that is forced is written."""
    tokens: Mapping[str, Mark]
    """Markers that must be tokens of the vocabulary."""
    texts: Mapping[str, Mark] = field(default_factory=dict)
    """Markers that are text, unless the vocabulary has them as tokens. None may begin another."""
    ends_thought: Mark | None = None
    """The marker that ends a thought which never closes."""
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

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "qwen3": _QWEN3,
        "qwen3.5": _QWEN35,
        "qwen3.6": _QWEN35,
        "deepseek-v3": _DEEPSEEK,
        "deepseek-r1": _DEEPSEEK,
        "deepseek-v4": _DEEPSEEK4,
    }
)
"""By the names of prime's renderers."""
