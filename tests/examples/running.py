"""The examples as processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

from tests import loopback

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0


def printed(name: str, *arguments: str, interpreter: Path | str = sys.executable, home: Path) -> list[str]:
    """The lines that an example prints; it ends well, says nothing else, and reaches this machine only."""
    (home / "sitecustomize.py").write_text(Path(loopback.__file__).read_text())
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(home), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
    command = [interpreter, str(ROOT / "examples" / f"{name}.py"), *arguments]
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-5000:]
    return done.stdout.splitlines()
