"""A ``sitecustomize`` for processes of tests: to connect to, or to look up, anything beyond this machine ends it with 99."""

import ipaddress
import os
import sys


def refuse(event: str, args: tuple[object, ...]) -> None:
    """End the process where `event` would leave the machine. No exception: a client would take it for a bad day."""
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        address = args[1] if event in ("socket.connect", "socket.sendto") else args
        host = address[0] if isinstance(address, tuple) else None  # a path is a socket of this machine
        name = host.decode() if isinstance(host, bytes) else host
        if isinstance(name, str) and not is_here(name):
            os.write(2, f"left this machine for {name}\n".encode())
            os._exit(99)


def is_here(name: str) -> bool:
    """Whether a host is this machine; every name but one could be any."""
    try:
        return name in ("", "localhost") or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


sys.addaudithook(refuse)
