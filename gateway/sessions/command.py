"""``gateway sessions ls``, ``show``, ``finish`` and ``rm``."""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, NoReturn

import orjson
import typer

from gateway.wire.session_id import fault_of

if TYPE_CHECKING:
    from gateway.client import GatewayClient
    from gateway.client.shapes import SessionState

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
    from gateway.client.calls import list_sessions  # its imports take time, which --help should not

    found: list[SessionState] = []
    following: str | None = "0"
    with _calling(gateway, key, "ls") as client:
        while following is not None and (limit is None or len(found) < limit):
            most = _PAGE_SESSIONS if limit is None else min(_PAGE_SESSIONS, limit - len(found))
            page = client.call(list_sessions({"group_id": group, "limit": most, "cursor": following}))
            found += page["data"]
            following = page["next"]
    if as_json:
        _print({"data": found, "next": following})
        return
    from gateway.sessions.table import show_all  # as above

    show_all(found)


@sessions.command()
def show(session: SessionId, gateway: Gateway, key: Key = "", *, as_json: AsJson = False) -> None:
    """Show one session: its terms, and what it has come to."""
    _check("show", session)
    with _calling(gateway, key, "show") as client:
        answer = client.known_session(session).show()
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
    _check("finish", session)
    added = None if metadata is None else _object(metadata)
    with _calling(gateway, key, "finish") as client:
        answer = client.known_session(session).finish(reward, added)
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
    for session in ids:
        _check("rm", session)
    with _calling(gateway, key, "rm") as client:
        for session in dict.fromkeys(ids):
            client.known_session(session).delete()
            _say(f"rm: {session} is deleted")


def _check(command: str, session: str) -> None:
    """What can be no id is said, and ends the process."""
    if fault := fault_of(session):
        _refuse(f"{command}: {session[:80]!r} cannot be a session id: {fault}")


def _object(metadata: str) -> dict[str, object]:
    try:
        read = orjson.loads(metadata)
    except orjson.JSONDecodeError as error:
        _refuse(f"finish: --metadata is no JSON: {error}")
    if not isinstance(read, dict):
        _refuse("finish: --metadata must be a JSON object")
    return read


def _calling(gateway: str, key: str, command: str) -> AbstractContextManager["GatewayClient"]:
    from gateway.admin_call import calling  # as above

    return calling(gateway, key, said_by=f"gateway sessions {command}")


def _print(answer: Mapping[str, object]) -> None:
    print(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())


def _say(text: str) -> None:
    print(f"gateway sessions {text}", file=sys.stderr)


def _refuse(text: str) -> NoReturn:
    _say(text)
    sys.exit(2)
