"""``gateway sessions ls``, ``show``, ``finish`` and ``rm``."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn
from urllib.parse import quote, urlencode

import orjson
import typer

from gateway.core.types import JsonObject
from gateway.wire.session_id import fault_of

sessions = typer.Typer(no_args_is_help=True, help="Sessions of a running gateway.")

Gateway = Annotated[
    str, typer.Option("--gateway", help="Where the gateway is: http://host:port", envvar="GATEWAY_ADMIN_URL")
]
Key = Annotated[str, typer.Option(help="Its --admin-key, if it has one", envvar="GATEWAY_ADMIN_KEY")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what the gateway answers, as JSON")]
SessionId = Annotated[str, typer.Argument(help="The session's id")]

_PAGE_SESSIONS = 1000


@sessions.command()
def ls(
    gateway: Gateway,
    key: Key = "",
    group: Annotated[str | None, typer.Option(help="Sessions of this group only")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many at most (default: all)")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the sessions, in the order in which they came to exist."""
    found: list[JsonObject] = []
    query: dict[str, str] = {} if group is None else {"group_id": group}
    following: str | None = "0"
    while following is not None and (limit is None or len(found) < limit):
        most = _PAGE_SESSIONS if limit is None else min(_PAGE_SESSIONS, limit - len(found))
        asked = query | {"limit": str(most), "cursor": following}
        page: Any = _asked("ls", "GET", f"?{urlencode(asked)}", gateway, key)
        found += page["data"]
        following = page["next"]
    if as_json:
        _print({"data": found, "next": following})
        return
    from gateway.sessions.table import show_all  # its imports take time, which --help should not

    show_all(found)


@sessions.command()
def show(session: SessionId, gateway: Gateway, key: Key = "", *, as_json: AsJson = False) -> None:
    """Show one session: its terms, and what it has come to."""
    answer = _asked("show", "GET", _path("show", session), gateway, key)
    if as_json:
        _print(answer)
        return
    from gateway.sessions.table import show_one  # as above

    show_one(answer)


@sessions.command()
def finish(
    session: SessionId,
    gateway: Gateway,
    key: Key = "",
    reward: Annotated[float | None, typer.Option(help="Its reward; repeated, it takes the place of the last")] = None,
    metadata: Annotated[str | None, typer.Option(help="A JSON object that is added to its metadata")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Finish a session: it takes no more turns, and its rows can be pulled when those in flight have ended."""
    body: JsonObject = {} if reward is None else {"reward": reward}
    if metadata is not None:
        body = {**body, "metadata": _object(metadata)}
    answer = _asked("finish", "POST", f"{_path('finish', session)}/finish", gateway, key, body)
    if as_json:
        _print(answer)
    else:
        told = f"reward {answer['reward']}, turns {answer['turns']}, in flight {answer['turns_in_flight']}"
        _say(f"finish: {session} is finished: {told}")


@sessions.command()
def rm(
    ids: Annotated[list[str], typer.Argument(metavar="SESSION...", help="Their ids")], gateway: Gateway, key: Key = ""
) -> None:
    """Delete sessions for good, whatever runs in them; their ids are not given again for a while."""
    paths = {session: _path("rm", session) for session in ids}
    for session, path in paths.items():
        _asked("rm", "DELETE", path, gateway, key)
        _say(f"rm: {session} is deleted")


def _path(command: str, session: str) -> str:
    """Where a session is; what can be no id is said, and ends the process."""
    if fault := fault_of(session):
        _refuse(f"{command}: {session[:80]!r} cannot be a session id: {fault}")
    return f"/{quote(session)}"


def _object(metadata: str) -> JsonObject:
    try:
        read = orjson.loads(metadata)
    except orjson.JSONDecodeError as error:
        _refuse(f"finish: --metadata is no JSON: {error}")
    if not isinstance(read, dict):
        _refuse("finish: --metadata must be a JSON object")
    return read


def _asked(command: str, method: str, path: str, gateway: str, key: str, body: JsonObject | None = None) -> JsonObject:
    from gateway.admin_call import asked  # as above

    return asked(method, gateway, f"/sessions{path}", key, body, said_by=f"gateway sessions {command}")


def _print(answer: Mapping[str, object]) -> None:
    print(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())


def _say(text: str) -> None:
    print(f"gateway sessions {text}", file=sys.stderr)


def _refuse(text: str) -> NoReturn:
    _say(text)
    sys.exit(2)
