"""The sim as a process of its own: what ``gateway sim`` runs."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from gateway.sim.server import create_sim

DEMO_TOKENIZER = Path(__file__).parent / "tokenizer"
"""The tokenizer that comes with the sim, where it does."""


def build(model: str | None, model_name: str | None, **knobs: Any) -> web.Application:
    """A sim as its flags say it: `model` is the tokenizer's folder, by default the one that comes along, if any.

    It serves the model under `model_name`, else under its folder or, for the one that comes along, its own name.

    The other `knobs` are those of `create_sim`, as is what it raises.
    """
    comes_along = DEMO_TOKENIZER if (DEMO_TOKENIZER / "tokenizer.json").is_file() else None
    name = model_name or model or "rollout-gateway/demo"
    return create_sim(model=name, tokenizer=model or comes_along, **knobs)


async def serve(app: web.Application, host: str, port: int, announce: Callable[[str], None]) -> bool:
    """Serve a sim until cancelled; `announce` is given its URL once it accepts requests. Port 0 is any free one.

    It never says that something was cut short: what is under way at its end is no loss.

    Raises:
        OSError: the address is taken or not ours.
    """
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0][1]
        announce(f"http://{f'[{host}]' if ':' in host else host}:{bound}")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    finally:
        await runner.cleanup()
    return True
