"""``gateway engines ls``, ``add``, ``drain`` and ``rm``."""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

if TYPE_CHECKING:
    from gateway.client import GatewayClient

engines = typer.Typer(no_args_is_help=True, help="Engines of a running gateway.")

Gateway = Annotated[
    str, typer.Option("--gateway", help="Where the gateway is: http://host:port", envvar="GATEWAY_ADMIN_URL")
]
Key = Annotated[str, typer.Option(help="Its --admin-key, if it has one", envvar="GATEWAY_ADMIN_KEY")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what the gateway answers, as JSON")]
Url = Annotated[str, typer.Argument(help="The engine: http://host:port, or with #dp=N for N data-parallel ranks")]


@engines.command()
def ls(gateway: Gateway, key: Key = "", *, as_json: AsJson = False) -> None:
    """List the engines and their ranks: what they are, how they are, how much they have to do."""
    with _calling(gateway, key, "ls") as client:
        found = client.engines()
    if as_json:
        _print({"data": found, "next": None})
        return
    from gateway.engines.table import show  # its imports take time, which --help should not

    show(found)


@engines.command()
def add(gateway: Gateway, url: Url, key: Key = "", *, as_json: AsJson = False) -> None:
    """Add an engine, or say how many ranks it has; one that does not answer yet is asked again and again."""
    with _calling(gateway, key, "add") as client:
        answer = client.add_engine(url)
    if as_json:
        _print(answer)
    elif answer["answers"]:
        _say(f"add: {answer['url']} is there, ranks: {len(answer['ranks'])}")
    else:
        _say(f"add: {answer['url']} was added, and does not answer so far: {answer['trouble']}")


@engines.command()
def drain(
    gateway: Gateway,
    url: Url,
    key: Key = "",
    rank: Annotated[int | None, typer.Option(help="This rank only")] = None,
    *,
    back: Annotated[bool, typer.Option("--back", help="Give it turns again")] = False,
    as_json: AsJson = False,
) -> None:
    """Give an engine, or one rank of it, no new turns; those that it has go on to their end."""
    with _calling(gateway, key, "drain") as client:
        answer = client.drain_engine(url, rank, back=back)
    if as_json:
        _print(answer)
    else:
        which = answer["url"] if rank is None else f"{answer['url']}#{rank}"
        _say(f"drain: {which} gets {'turns again' if back else 'no new turns'}")


@engines.command()
def rm(gateway: Gateway, url: Url, key: Key = "", *, as_json: AsJson = False) -> None:
    """Remove an engine. Its calls are carried on elsewhere."""
    with _calling(gateway, key, "rm") as client:
        answer = client.remove_engine(url)
    if as_json:
        _print(answer)
    else:
        _say(f"rm: {answer['url']} is removed, calls carried on elsewhere: {answer['interrupted']}")


def _calling(gateway: str, key: str, command: str) -> AbstractContextManager["GatewayClient"]:
    from gateway.admin_call import calling  # as above

    return calling(gateway, key, said_by=f"gateway engines {command}")


def _print(answer: Mapping[str, object]) -> None:
    print(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())


def _say(text: str) -> None:
    print(f"gateway engines {text}", file=sys.stderr)
