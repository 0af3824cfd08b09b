"""An agent of a real package, as a process of its own."""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Child:
    """What is run, and at home in which scratch folder; from there it reaches this machine only."""

    interpreter: Path
    agent: str
    """The name of its file in ``agents/``."""
    options: Sequence[str]
    home: Path

    async def run(self, url: str) -> list[Any]:
        """What it reports of its session at `url`."""
        (self.home / "sitecustomize.py").write_text((HERE.parent / "loopback.py").read_text())
        child = await asyncio.create_subprocess_exec(
            self.interpreter,
            "-m",
            f"tests.clients.agents.{self.agent}",
            url,
            *self.options,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.home,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "PYTHONPATH": os.pathsep.join([str(self.home), str(HERE.parents[1])]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "LANG": "C.UTF-8",
                "LITELLM_LOCAL_MODEL_COST_MAP": "true",
                "MSWEA_SILENT_STARTUP": "1",
            },
        )
        try:
            out, err = await asyncio.wait_for(child.communicate(), LIMIT_S)
        finally:
            if child.returncode is None:
                child.kill()
        assert child.returncode == 0, err.decode()[-5000:]
        reported: list[Any] = json.loads(out.splitlines()[-1])
        return reported
