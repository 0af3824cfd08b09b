"""Small chat templates that write calls as those of the families do whose own cannot be had offline."""

import json

from gateway.core.types import Message, ToolCall
from gateway.render.chat_template import template_text
from gateway.render.discovery import AnswerReader, answer_format
from gateway.render.translator import Translator
from tests.render.doubles import PlainRenderer

_TURN = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|assistant|>' + (m.content or '') }}CALLS{{ '<|stop|>' }}
{%- elif m.role == 'tool' %}{{ '<|tool|>' + m.content }}
{%- else %}{{ '<|' + m.role + '|>' + m.content }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""
_EACH = "{%- for c in m.tool_calls or [] %}{%- set f = c.function %}CALL{%- endfor %}"
_JOINED = "{%- if m.tool_calls %}{{ 'BEFORE' }}{{ '[' }}CALLS{{ ']' }}{{ 'AFTER' }}{% endif %}"
_NAMED = "{{ '{\"name\": \"' + f.name + '\", \"KEY\": ' }}{{ f.arguments | tojson }}{{ '}' }}{{ '' if loop.last else 'SEP' }}"


def _each(call: str) -> str:
    return _TURN.replace("CALLS", _EACH.replace("CALL", call))


def _section(opens: str, call: str, closes: str) -> str:
    calls = "{%- if m.tool_calls %}" + opens + _EACH.replace("CALL", call) + closes + "{% endif %}"
    return _TURN.replace("CALLS", calls)


def _array(before: str, after: str = "") -> str:
    call = _NAMED.replace("KEY", "arguments").replace("SEP", ", ")
    joined = _JOINED.replace("CALLS", _EACH.replace("CALL", call)).replace("BEFORE", before).replace("AFTER", after)
    return _TURN.replace("CALLS", joined)


_PARAMETERS = """{%- for k, v in f.arguments.items() %}{{ '<parameter=' + k + '>\\n' }}
{{- v if v is string else v | tojson }}{{ '\\n</parameter>\\n' }}{% endfor %}"""
_XML = "{{ '\\n<TAG>\\n<function=' + f.name + '>\\n' }}" + _PARAMETERS + "{{ '</function>\\n</TAG>' }}"
_GLM = """{{ '\\n<tool_call>' + f.name + '\\n' }}{%- for k, v in f.arguments.items() %}
{{- '<arg_key>' + k + '</arg_key>\\n<arg_value>' }}{{ v if v is string else v | tojson }}{{ '</arg_value>\\n' }}
{%- endfor %}{{ '</tool_call>' }}"""
_INVOKED = """{{ '<invoke name="' + f.name + '">\\n' }}{%- for k, v in f.arguments.items() %}
{{- '<parameter name="' + k + '">' }}{{ v if v is string else v | tojson }}{{ '</parameter>\\n' }}
{%- endfor %}{{ '</invoke>\\n' }}"""
_DSML = """{{ '<｜DSML｜invoke name="' + f.name + '">\\n' }}{%- for k, v in f.arguments.items() %}
{{- '<｜DSML｜parameter name="' + k + '" string="' + ('true' if v is string else 'false') + '">' }}
{{- v if v is string else v | tojson }}{{ '</｜DSML｜parameter>\\n' }}
{%- endfor %}{{ '</｜DSML｜invoke>\\n' }}"""
_HERMES = """{{ '\\n<tool_call>\\n{"name": "' + f.name + '", "arguments": ' }}{{ f.arguments | tojson }}{{ '}\\n</tool_call>' }}"""
_FENCE = "{{ '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + f.name + '\\n```json\\n' + f.arguments + '\\n```<｜tool▁call▁end｜>' }}"
_SEPARATED = "{{ '<｜tool▁call▁begin｜>' + f.name + '<｜tool▁sep｜>' + f.arguments + '<｜tool▁call▁end｜>' }}"
_NUMBERED = """{{ '<|tool_call_begin|>' + c.id + '<|tool_call_argument_begin|>' }}
{{- f.arguments if f.arguments is string else f.arguments | tojson }}{{ '<|tool_call_end|>' }}"""
_DEEPSEEK = "{{ '<｜tool▁calls▁begin｜>' }}", "{{ '<｜tool▁calls▁end｜>' }}"
_LLAMA = "{{ '; ' if not loop.first }}" + _NAMED.replace("KEY", "parameters").replace("SEP", "")

TEMPLATES = {
    "hermes": ("qwen3", _each(_HERMES)),
    "qwen-xml": ("qwen3.5", _each(_XML.replace("TAG", "tool_call"))),
    "seed-xml": ("seed-xml", _each(_XML.replace("TAG", "seed:tool_call"))),
    "glm": ("glm-4.5", _each(_GLM)),
    "kimi": (
        "kimi-k2",
        _section("{{ '<|tool_calls_section_begin|>' }}", _NUMBERED, "{{ '<|tool_calls_section_end|>' }}"),
    ),
    "minimax": ("minimax-m2", _section("{{ '\\n<minimax:tool_call>\\n' }}", _INVOKED, "{{ '</minimax:tool_call>' }}")),
    "deepseek-fenced": ("deepseek-v3", _section(_DEEPSEEK[0], _FENCE, _DEEPSEEK[1])),
    "deepseek-json": ("deepseek-json", _section(_DEEPSEEK[0], _SEPARATED, _DEEPSEEK[1])),
    "dsml": ("deepseek-v4", _section("{{ '\\n\\n<｜DSML｜tool_calls>\\n' }}", _DSML, "{{ '</｜DSML｜tool_calls>' }}")),
    "mistral": ("mistral", _array("[TOOL_CALLS] ")),
    "granite": ("granite", _array("<|tool_call|>")),
    "phi-4": ("phi-4", _array("<|tool_call|>", "<|/tool_call|>")),
    "jamba": ("jamba", _array("<tool_calls>", "</tool_calls>")),
    "llama-json": ("llama-3", _each(_LLAMA)),
}
"""By the name of the format that is to be discovered: the family whose small tokenizer has its markers, and the template."""
MISTRAL_NEW = _each(
    "{{ '[TOOL_CALLS]' + f.name + '[ARGS]' }}{{ f.arguments | tojson if f.arguments is not string else f.arguments }}"
)
PYTHON_TAG = _section("{{ '<|python_tag|>' }}", _LLAMA, "")
"""As the template of Llama 3.1 and of Mistral's newer models write."""
NO_CALLS = _TURN.replace("CALLS", "")
UNKNOWN = _each("{{ '<call ' + f.name + ' ' + f.arguments + '/>' }}")
WRAPPED = _TURN.replace("(m.content or '')", "'<|channel|>final<|message|>' + (m.content or '')").replace("CALLS", "")

TOOL: dict[str, object] = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "F.",
        "parameters": {"type": "object", "properties": {"t": {"type": "string"}}},
    },
}


class Pair:
    """A template that writes answers, and what was found to read them."""

    def __init__(self, tokenizer, stop, header):
        self.tokenizer, self.header = tokenizer, header
        answers = answer_format(tokenizer, None, {})
        self.reader = AnswerReader(answers, tokenizer.encode(stop, add_special_tokens=False))
        self.translator = Translator(PlainRenderer(), tokenizer)
        self.translator.call_style = answers.call_style

    def text(self, messages, tools):
        try:
            return template_text(self.tokenizer, messages, tools=tools, opened=False, template_kwargs={})
        except Exception:  # noqa: BLE001  # a template raises what it likes
            return None

    def reads_what_it_writes(self, content, calls):
        made = tuple(ToolCall(f"functions.f:{nth}", "f", json.dumps(given)) for nth, given in enumerate(calls))
        answer = Message("assistant", content, tool_calls=made)
        whole = self.text(self.translator._dicts([Message("user", "u"), answer]), [TOOL])
        assert whole is not None
        completion = self.tokenizer.encode(whole.rpartition(self.header)[2], add_special_tokens=False)
        said = self.reader.read(completion, [TOOL])
        found = [(call.name, json.loads(call.arguments)) for call in said.tool_calls]
        assert (said.content, found) == (content, [("f", given) for given in calls])
        assert "malformed_tool_call" not in said.flags
