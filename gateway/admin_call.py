"""A running gateway, as the command line calls it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.client.client import GatewayClient
from gateway.client.errors import GatewayCallError, GatewayClientError
from gateway.errors import ConfigError
from gateway.wire.engines import is_server_url


@contextmanager
def calling(gateway: str, key: str, *, said_by: str) -> Iterator[GatewayClient]:
    """A client of it, for a command that is known as `said_by`. Nothing is tried twice: whoever typed it sees to that.

    What fails in the block is said on standard error, in one line, and ends the process: with 1 where the gateway
    cannot be reached or refuses, with 2 where it could not be asked.
    """
    try:
        _check(gateway, key)
        with GatewayClient(gateway, key or None, patience_s=0) as client:
            yield client
    except (ConfigError, OSError) as error:
        print(f"{said_by}: {error}", file=sys.stderr)
        sys.exit(2)
    except GatewayCallError as error:
        print(f"{said_by}: the gateway at {gateway} refuses ({error.status}): {error.message}", file=sys.stderr)
        sys.exit(1)
    except GatewayClientError as error:
        print(f"{said_by}: {error}", file=sys.stderr)
        sys.exit(1)


def _check(gateway: str, key: str) -> None:
    if not is_server_url(gateway):
        shown = "" if "@" in gateway else f" {gateway!r}"  # which may be a password
        raise ConfigError(f"--gateway{shown} is no URL of a gateway: give http://host:port, and a key with --key")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("--key has characters that no key can have: is there a line break at its end?")
