"""Chat templates that a bridge must not be fooled by, and one that is sound; all in ChatML, as far as they go."""

from dataclasses import dataclass

_CALLS = (
    "{% for call in message.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments }}}\n</tool_call>{% endfor %}'
)
THOUGHT = "{% if message.reasoning_content %}<think>\n{{ message.reasoning_content }}\n</think>\n\n{% endif %}"
_TOOLS = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
)
_OPENING = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def chatml(
    *,
    head: str = "",
    message: str = "",
    role: str = "{{ message.role }}",
    content: str = "{{ message.content or '' }}",
    thought: str = THOUGHT,
    calls: str = _CALLS,
    close: str = "<|im_end|>\n",
    messages: str = "messages",
    opening: str = _OPENING,
) -> str:
    """A template, sound but for what is given."""
    said = f"<|im_start|>{role}\n{thought}{content}{calls}{close}"
    return f"{head}{_TOOLS}{{% for message in {messages} %}}{message}{said}{{% endfor %}}{opening}"


SOUND = chatml()


@dataclass(frozen=True, slots=True)
class Hostile:
    """A template and how far it can be bridged."""

    template: str
    bridged: str
    """``never``, ``some`` turns, or ``all`` of them, since what it does is harmless to the ids before and behind."""
    changes: bool = False
    """Whether turns of one shape differ, which only a proof of each tells."""
    turns: int = 6
    """How many it takes to show."""


def _merged(message: str) -> str:
    """Consecutive tool results in one block, as Qwen's templates write them."""
    return (
        "{% for message in messages %}{% if message.role == 'tool' %}"
        "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}"
        "\n<tool_response>\n{{ message.content }}\n</tool_response>"
        "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
        f"{{% else %}}{message}{{% endif %}}{{% endfor %}}"
    )


_SAID = f"<|im_start|>{{{{ message.role }}}}\n{THOUGHT}{{{{ message.content or '' }}}}{_CALLS}<|im_end|>\n"
_SPEAKER = "{{ '<tool_response>' if message.role == 'assistant' else '</tool_response>' }}"
_LAST_ANSWER = (
    "(messages | selectattr('role', 'equalto', 'assistant') | list | last | default({})).content | default('', true)"
)

HOSTILE = {
    "drops earlier answers": Hostile(
        chatml(messages="(messages if messages | length < 3 else messages[:1] + messages[-1:])"), "never"
    ),
    "counts messages": Hostile(
        chatml(head="<|im_start|>system\n{{ messages | length }} messages<|im_end|>\n"), "never"
    ),
    "numbers messages": Hostile(chatml(role="{{ message.role }} {{ loop.index }}"), "never"),
    "counts from the end": Hostile(chatml(role="{{ message.role }} {{ loop.revindex }}"), "never"),
    "marks the last message": Hostile(chatml(role="{{ message.role }}{{ ' (now)' if loop.last else '' }}"), "never"),
    "tells the length of the message before": Hostile(
        chatml(
            role="{{ message.role }}{{ ' after ' ~ (messages[loop.index0 - 1].content or '') | length if loop.index0 else '' }}"
        ),
        "never",
    ),
    "differs behind a long message": Hostile(
        chatml(
            role="{{ message.role }}{{ '!' if loop.index0 and (messages[loop.index0 - 1].content or '') | length > 60 else '' }}"
        ),
        "some",
        changes=True,
    ),
    "writes the time at its head": Hostile(
        chatml(head="<|im_start|>system\n{{ strftime_now('%H:%M:%S.%f') }}<|im_end|>\n"), "all"
    ),
    "writes the time of each message": Hostile(chatml(role="{{ message.role }} {{ strftime_now('%S.%f') }}"), "never"),
    "trims": Hostile(chatml(content="{{ message.content | default('', true) | trim }}"), "all"),
    "cuts long answers": Hostile(
        chatml(content="{{ (message.content or '')[:60 if message.role == 'assistant' else 999] }}"),
        "some",
        changes=True,
    ),
    "changes after many messages": Hostile(
        chatml(role="{{ message.role }}{{ ' (late)' if loop.index0 > 24 else '' }}"), "some", changes=True, turns=18
    ),
    "changes its head after many messages": Hostile(
        chatml(head="{% if messages | length > 25 %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}"),
        "some",
        turns=18,
    ),
    "depends on the names of tools": Hostile(
        chatml(close="{{ ' ' if tools and tools[0].function.name == 'look' and loop.last }}<|im_end|>\n"), "never"
    ),
    "opens a message with what stops an answer": Hostile(
        "{% for message in messages %}" + _SPEAKER + "\n{{ message.content or '' }}" + _CALLS + "{% endfor %}"
        "{% if add_generation_prompt %}<tool_response>{% endif %}",
        "some",
    ),
    "merges results of tools": Hostile(_TOOLS + _merged(_SAID) + _OPENING, "all"),
    "tells the length of the last answer": Hostile(
        chatml(opening="[{{ (" + _LAST_ANSWER + ") | length }}]" + _OPENING), "never"
    ),
    "tells the first letter of the last answer": Hostile(
        chatml(opening="{{ (" + _LAST_ANSWER + ")[:1] }}" + _OPENING), "never"
    ),
    "demands that roles alternate": Hostile(
        chatml(
            message="{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles') }}{% endif %}"
        ),
        "all",
    ),
    "strips thoughts": Hostile(
        chatml(thought="{% if loop.index > messages | length - 1 %}" + THOUGHT + "{% endif %}"), "some"
    ),
    "closes an answer with what opens the next message": Hostile(
        chatml(close="{{ '<|im_end|>' if message.role != 'assistant' }}\n"), "all"
    ),
    "has no control tokens": Hostile(
        "{% for message in messages %}{{ message.role }}: {{ message.content or '' }}" + _CALLS + "\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}",
        "never",
    ),
    "leaves out calls": Hostile(chatml(calls=""), "some"),
    "writes at random": Hostile(chatml(role="{{ message.role }} {{ range(9999) | random }}"), "never"),
    "forgets the first messages": Hostile(chatml(messages="messages[-8:]"), "some"),
}


def _calls(listed: str = "message.tool_calls or []", name: str = "call.function.name", arguments: str = "text") -> str:
    return (
        "{% for call in " + listed + " %}{% set text = call.function.arguments %}\n<tool_call>\n"
        '{"name": "{{ ' + name + ' }}", "arguments": {{ ' + arguments + " }}}\n</tool_call>{% endfor %}"
    )


_IS_ANSWER = "message.role == 'assistant'"
_NOW = "strftime_now('%Y') | int > 2019"
_LAST_USER = (
    "{% set asked = namespace(at=0) %}{% for message in messages %}"
    "{% if message.role == 'user' %}{% set asked.at = loop.index0 %}{% endif %}{% endfor %}"
)

REWRITING = {
    "drops long thoughts": chatml(
        thought="{% if (message.reasoning_content or '') | length < 40 %}" + THOUGHT + "{% endif %}"
    ),
    "drops thoughts behind the last user": chatml(
        head=_LAST_USER, thought="{% if loop.index0 > asked.at %}" + THOUGHT + "{% endif %}"
    ),
    "drops long arguments": chatml(calls=_calls(arguments="text if text | length < 40 else '{}'")),
    "drops long contents beside calls": chatml(
        content="{{ message.content if not message.tool_calls or message.content | length < 5 else '' }}"
    ),
    "drops contents beside calls": chatml(content="{{ message.content if not message.tool_calls else '' }}"),
    "drops all calls but the first": chatml(calls=_calls("(message.tool_calls or [])[:1]")),
    "turns calls around": chatml(calls=_calls("(message.tool_calls or []) | reverse")),
    "drops all arguments but the first": chatml(calls=_calls(arguments="text.split(',')[0] ~ '}'")),
    "drops names": chatml(calls=_calls(name="'it'")),
    "rewrites names": chatml(calls=_calls(name="'tool_' ~ call.function.name")),
    "doubles answers": chatml(content="{{ (message.content or '') * (2 if " + _IS_ANSWER + " else 1) }}"),
    "remarks on answers": chatml(content="{{ message.content or '' }}{{ ' [said]' if " + _IS_ANSWER + " }}"),
    "leaves out white space": chatml(
        content="{{ (message.content or '').split() | join('' if " + _IS_ANSWER + " else ' ') }}"
    ),
    "retells answers": chatml(
        content="{% if " + _IS_ANSWER + " and not loop.last %}[earlier]<|im_end|>\n<|im_start|>system\n"
        "The assistant said: {{ message.content }}{% else %}{{ message.content or '' }}{% endif %}"
    ),
    "takes what is in front of a closed thought for one": chatml(
        content="{{ (message.content or '').split('</think>')[-1] }}"
    ),
    "has new rules since some year": chatml(
        role="{{ message.role }}{{ ' [new rules]' if message.role == 'user' and " + _NOW + " }}"
    ),
    "forgets since some year": chatml(
        messages="(messages[-1:] if messages | length > 2 and " + _NOW + " else messages)"
    ),
    "writes dates where the clock formats them": chatml(
        role="{{ message.role }}{{ ' ' ~ strftime_now('%Y-%m-%d') if strftime_now('%Y-%m-%d') | length > 5 }}"
    ),
    "writes thoughts without marks": chatml(
        thought="{% if message.reasoning_content %}{{ message.reasoning_content }} {% endif %}"
    ),
    "writes calls without marks": chatml(
        calls="{% for call in message.tool_calls or [] %}{{ call.function.name ~ ' ' ~ call.function.arguments }}{% endfor %}"
    ),
    "writes contents behind calls": chatml(content="", calls=_CALLS + "{{ message.content or '' }}"),
    "closes the head of a message as an answer is closed": (
        "{% for message in messages %}# {{ message.role }}<|im_end|>{{ message.content or '' }}\n{% endfor %}"
        "{% if add_generation_prompt %}# assistant<|im_end|>{% endif %}"
    ),
    "closes with another token than was sampled": chatml(
        role="{{ message.role }}{{ ' ' ~ message.name if message.name }}{{ ' ' ~ message.tool_call_id if message.tool_call_id }}",
        close="<|endoftext|>\n",
    ),
}
"""Templates that write something else than was sampled, of some answers or always."""

HANGING_ON_THOUGHTS = {
    "opens an answer by whether anybody thought": chatml(
        opening="{% if add_generation_prompt %}<|im_start|>assistant\n"
        "{{ '<think>\n' if messages | selectattr('reasoning_content') | list }}{% endif %}"
    ),
    "remarks that there was a thought before": chatml(
        role="{{ message.role }}{{ ' (thought)' if loop.index0 and messages[loop.index0 - 1].reasoning_content }}"
    ),
}
"""Templates in which what follows an answer hangs on thoughts."""
