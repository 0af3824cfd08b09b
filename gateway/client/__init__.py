"""The gateway from a trainer's code: clients, a gateway of one's own, a simulated engine, fixtures for tests.

Everything is loaded when it is first used, so that to import this costs next to nothing: the pytest plugin is imported
by every test run of an environment that has this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.client.async_client import AsyncGatewayClient, AsyncSession
    from gateway.client.client import GatewayClient, Session
    from gateway.client.errors import (
        GatewayCallError,
        GatewayClientError,
        GatewayConnectionError,
        GatewayProcessError,
        PackageMissing,
        PauseLost,
    )
    from gateway.client.pause import Pause
    from gateway.client.process import launch, simulated_engine
    from gateway.client.thread import serve_in_thread

__all__ = [
    "AsyncGatewayClient",
    "AsyncSession",
    "GatewayCallError",
    "GatewayClient",
    "GatewayClientError",
    "GatewayConnectionError",
    "GatewayProcessError",
    "PackageMissing",
    "Pause",
    "PauseLost",
    "Session",
    "launch",
    "serve_in_thread",
    "simulated_engine",
]

_HOMES = {
    "async_client": ("AsyncGatewayClient", "AsyncSession"),
    "client": ("GatewayClient", "Session"),
    "pause": ("Pause",),
    "process": ("launch", "simulated_engine"),
    "thread": ("serve_in_thread",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
