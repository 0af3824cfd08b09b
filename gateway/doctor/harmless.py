"""Calls that do no harm: a user's agent has a real shell, and real tools, while the model that calls them is simulated.

A tool whose name says that it changes something is not called at all; commands and code are ones that do nothing; all
other text is of a few words that mean nothing, and no argument is given that is not required.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from random import Random

from gateway.sim.example import example
from gateway.sim.personality import Json, section

COMMANDS = ("echo café ☃", "true", "echo ok")
"""What is said to a shell, turn by turn."""
WORDS = ("nothing", "example", "sample")
"""What all other text is made of."""
_SHELL = {"command", "commands", "cmd", "cmds", "shell", "bash", "script", "keystrokes", "program", "argv", "args"}
_SPEECH = {
    "code": "1 + 1",
    "python": "1 + 1",
    "source": "1 + 1",
    "snippet": "1 + 1",
    "expression": "1 + 1",
    "sql": "SELECT 1",
    "url": "about:blank",
    "uri": "about:blank",
    **dict.fromkeys(("path", "file", "filename", "file_path", "filepath", "directory", "dir", "cwd"), "."),
}
_FINISHING = {
    *("finish", "final_answer", "final_result", "submit", "submit_answer", "done", "complete", "complete_task"),
    *("task_complete", "attempt_completion", "terminate", "exit", "return_answer"),
}
_CHANGING = {
    *("add", "append", "apply", "approve", "assign", "ban", "book", "buy", "cancel", "charge", "clear", "close"),
    *("commit", "copy", "cp", "create", "delete", "deploy", "destroy", "disable", "download", "drop", "edit"),
    *("email", "enable", "erase", "exchange", "format", "grant", "insert", "install", "invite", "kill", "launch"),
    *("make", "merge", "mkdir", "modify", "move", "mv", "open", "order", "overwrite", "patch", "pay", "place", "post"),
    *("publish", "purchase", "push", "put", "refund", "reject", "remove", "rename", "replace", "reply", "reset"),
    *("restart", "return", "revoke", "rm", "save", "schedule", "send", "set", "share", "shutdown", "start", "stop"),
    *("store", "submit", "sync", "transfer", "trash", "truncate", "tweet", "unlink", "uninstall", "update", "upload"),
    *("upsert", "wipe", "write", "editor", "writer"),
}
_READING = {
    *("calculate", "check", "compute", "count", "describe", "fetch", "find", "get", "grep", "inspect", "is", "list"),
    *("load", "lookup", "look", "query", "read", "retrieve", "search", "show", "think", "view"),
}
_THINGS = {
    *("book", "charge", "copy", "email", "exchange", "format", "order", "patch", "place", "post", "purchase"),
    *("reply", "return", "schedule", "set", "share", "start", "stop", "store", "transfer", "tweet", "update"),
}
"""Of `_CHANGING`, what behind a verb that reads is a thing: ``get_order_details``."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def may_call(name: str, allowed: Collection[str]) -> bool:
    """Whether a tool is called: those of `allowed` where there are any, else those that seem to change nothing."""
    return name in allowed if allowed else not _changes(name)


def finishes(name: str) -> bool:
    """Whether a tool is the way in which an agent is told that all is done."""
    return "_".join(_parts(name)) in _FINISHING


def takes_commands(tool: Json) -> bool:
    """Whether a tool is a shell: it needs a command, whose words are not given."""
    schema = section(tool, "parameters")
    return any("enum" not in section(section(schema, "properties"), name) for name in _required(schema) & _SHELL)


def arguments_of(tool: Json, nth: int) -> Json:
    """Arguments that a tool can be called with in the `nth` turn: what it requires, and nothing else."""
    return _softened(section(tool, "parameters"), nth)


def value_of(schema: Json, nth: int) -> object:
    """A value that a schema allows."""
    if "properties" in schema:
        return _softened(schema, nth)
    return example(schema, WORDS, Random(nth))  # noqa: S311  # nothing hangs on it


def with_command(tool: Json, command: str, nth: int) -> Json:
    """Arguments with which a shell runs `command`."""
    names = _required(section(tool, "parameters")) & _SHELL
    return {name: _like(value, command) if name in names else value for name, value in arguments_of(tool, nth).items()}


def _softened(schema: Json, nth: int) -> Json:
    made = example({**schema, "type": "object"}, WORDS, Random(nth))  # noqa: S311  # likewise
    assert isinstance(made, dict)
    properties, required = section(schema, "properties"), _required(schema)
    return {
        name: _soft(name, value, section(properties, name), nth) for name, value in made.items() if name in required
    }


def _soft(name: str, value: object, schema: Json, nth: int) -> object:
    given = schema.get("enum")
    if isinstance(given, list) and given:
        return next((word for word in given if not _changes(str(word))), given[0])
    if "const" in schema:
        return value
    if "properties" in schema:
        return _softened(schema, nth)
    last = _parts(name)[-1:] or [""]
    if name.lower() in _SHELL or last[0] in _SHELL:
        return _like(value, COMMANDS[nth % len(COMMANDS)])
    said = _SPEECH.get(name.lower()) or _SPEECH.get(last[0])
    return value if said is None else _like(value, said)


def _like(value: object, said: str) -> object:
    """`said` in the place of text, or of a list of texts; what is neither stays."""
    if isinstance(value, str):
        return said
    return [said] if isinstance(value, list) and all(isinstance(item, str) for item in value) else value


def _changes(name: str) -> bool:
    """Whether a name says that something is changed."""
    parts = _parts(name)
    reads = bool(parts) and parts[0] in _READING
    return bool(_CHANGING.intersection(parts) - (_THINGS if reads else set()))


def _required(schema: Mapping[str, object]) -> set[str]:
    required = schema.get("required")
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()


def _parts(name: str) -> Sequence[str]:
    return [part.lower() for part in _PART.findall(name)]
