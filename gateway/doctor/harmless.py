"""Calls that do no harm: a user's agent has a real shell, and real tools, while the model that calls them is simulated.

A tool whose name says that it changes something is not called at all; commands and code are ones that do nothing; all
other text is of a few words that mean nothing, and no argument is given that is not required.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    *("accept", "activate", "add", "append", "apply", "approve", "archive", "assign", "attach", "backup", "ban"),
    *("block", "book", "burn", "buy", "cancel", "change", "charge", "checkout", "chmod", "chown", "clear", "click"),
    *("close", "comment", "commit", "configure", "confirm", "connect", "copy", "cp", "create", "deactivate"),
    *("decline", "decrease", "delete", "deploy", "deposit", "destroy", "detach", "disable", "disconnect"),
    *("dispatch", "donate", "download", "drag", "drop", "edit", "editor", "email", "emit", "empty", "enable"),
    *("erase", "evict", "exchange", "export", "fire", "follow", "format", "forward", "grant", "halt", "hire"),
    *("import", "increase", "insert", "install", "invite", "invoke", "issue", "kill", "launch", "lock", "login"),
    *("logout", "mail", "make", "merge", "message", "migrate", "mint", "mkdir", "modify", "move", "mute", "mv"),
    *("notify", "open", "order", "overwrite", "patch", "pause", "pay", "place", "post", "poweroff", "press"),
    *("print", "provision", "prune", "publish", "purchase", "purge", "push", "put", "react", "reboot", "record"),
    *("refund", "register", "reject", "release", "remove", "rename", "rent", "replace", "reply", "reserve"),
    *("reset", "resize", "resolve", "restart", "restore", "resume", "return", "revert", "revoke", "rewrite", "rm"),
    *("rmdir", "rollback", "rotate", "save", "scale", "schedule", "sell", "send", "set", "share", "shutdown"),
    *("sign", "spawn", "spend", "start", "stop", "store", "submit", "subscribe", "suspend", "swap", "switch"),
    *("sync", "tag", "tap", "terminate", "toggle", "trade", "transfer", "trash", "trigger", "truncate", "turn"),
    *("tweet", "unarchive", "unblock", "undo", "unfollow", "uninstall", "unlink", "unlock", "unregister"),
    *("unsubscribe", "update", "upgrade", "upload", "upsert", "vote", "wipe", "withdraw", "write", "writer"),
}
_READING = {
    *("calculate", "check", "compute", "count", "describe", "fetch", "find", "get", "grep", "inspect", "is", "list"),
    *("load", "lookup", "look", "query", "read", "retrieve", "search", "show", "think", "view"),
}
_THINGS = {
    *("archive", "backup", "block", "book", "change", "charge", "click", "close", "comment", "commit", "copy"),
    *("download", "email", "exchange", "export", "format", "import", "install", "invite", "issue", "lock", "login"),
    *("mail", "merge", "message", "open", "order", "patch", "place", "post", "print", "purchase", "push", "record"),
    *("release", "reply", "return", "schedule", "set", "share", "sign", "start", "stop", "store", "switch", "tag"),
    *("trade", "transfer", "tweet", "update", "upload", "vote"),
}
"""Of `_CHANGING`, what behind a verb that reads is a thing: ``get_order_details``."""
_STEMS = ("send", *(verb for verb in sorted(_CHANGING) if len(verb) > 4))  # shorter ones begin too much
_NAMED = {"properties", "$defs", "definitions"}
"""Parts of a schema that have schemas by names of their own."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def may_call(tool: Json, allowed: Collection[str]) -> bool:
    """Whether a tool is called: those of `allowed` where there are any, else those that seem to change nothing.

    A tool changes something by its name, or by a word that it cannot be called without.
    """
    name = str(tool["name"])
    if allowed:
        return name in allowed
    return not (_names_a_change(name) or any(map(_changes, _texts(arguments_of(tool, 0)))))


def finishes(name: str) -> bool:
    """Whether a tool is the way in which an agent is told that all is done."""
    return "_".join(_parts(name)) in _FINISHING


def takes_commands(tool: Json) -> bool:
    """Whether a tool is a shell: it needs a command, whose words are not given."""
    schema = section(tool, "parameters")
    return any("enum" not in section(section(schema, "properties"), name) for name in _required(schema) & _SHELL)


def arguments_of(tool: Json, nth: int) -> Json:
    """Arguments that a tool can be called with in the `nth` turn: what it requires, and nothing else."""
    made = value_of({**section(tool, "parameters"), "type": "object"}, nth)
    return made if isinstance(made, dict) else {}


def value_of(schema: Json, nth: int) -> object:
    """A value that a schema allows."""
    return _soft("", example(_narrowed(schema), WORDS, Random(nth)), nth)  # noqa: S311  # nothing hangs on it


def with_command(tool: Json, command: str, nth: int) -> Json:
    """Arguments with which a shell runs `command`."""
    names = _required(section(tool, "parameters")) & _SHELL
    return {name: _like(value, command) if name in names else value for name, value in arguments_of(tool, nth).items()}


def _narrowed(schema: Json) -> Json:
    """A schema that allows less, wherever in it: nothing that is not required, of given words one that is harmless."""
    narrowed = {key: _narrowed_part(part) for key, part in schema.items() if key not in _NAMED}
    for key in _NAMED & schema.keys():
        named = section(schema, key)
        wanted = _required(schema) & named.keys() if key == "properties" else named
        narrowed[key] = {name: _narrowed_part(part) for name, part in named.items() if name in wanted}
    if isinstance(given := schema.get("enum"), list):
        narrowed["enum"] = [word for word in given if not _changes(str(word))][:1] or given[:1]
    return narrowed


def _narrowed_part(part: object) -> object:
    if isinstance(part, list):
        return [_narrowed_part(one) for one in part]
    return _narrowed(part) if isinstance(part, dict) else part


def _soft(name: str, value: object, nth: int) -> object:
    """A value of that name in which text of ours does what its name says, and no harm. What was given stays."""
    if isinstance(value, dict):
        return {key: _soft(key, part, nth) for key, part in value.items()}
    if isinstance(value, list) and not all(map(_is_ours, value)):
        return [_soft(name, part, nth) for part in value]
    last = _parts(name)[-1:] or [""]
    if name.lower() in _SHELL or last[0] in _SHELL:
        return _like(value, COMMANDS[nth % len(COMMANDS)])
    said = _SPEECH.get(name.lower()) or _SPEECH.get(last[0])
    return value if said is None else _like(value, said)


def _is_ours(value: object) -> bool:
    return isinstance(value, str) and (value in COMMANDS or set(value.split()) <= set(WORDS))


def _texts(value: object) -> Iterator[str]:
    """All text in a value that is not ours: words that its schema gives."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
    elif isinstance(value, str) and value not in _SPEECH.values() and not _is_ours(value):
        yield value


def _like(value: object, said: str) -> object:
    """`said` in the place of text of ours, or of a list of it; what is neither stays."""
    if isinstance(value, list) and all(map(_is_ours, value)):
        return [said]
    return said if _is_ours(value) else value


def _changes(words: str) -> bool:
    """Whether words say that something is changed."""
    parts = _parts(words)
    return bool(_CHANGING.intersection(parts) - (_THINGS if _reads(parts) else set()))


def _names_a_change(name: str) -> bool:
    """Whether a tool's name says so, be its words not set apart (``deletefile``), or cannot be read."""
    parts = _parts(name)
    return (
        not name.isascii() or _changes(name) or (not _reads(parts) and any(part.startswith(_STEMS) for part in parts))
    )


def _reads(parts: Sequence[str]) -> bool:
    return bool(parts) and parts[0] in _READING


def _required(schema: Mapping[str, object]) -> set[str]:
    required = schema.get("required")
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()


def _parts(name: str) -> Sequence[str]:
    return [part.lower() for part in _PART.findall(name)]
