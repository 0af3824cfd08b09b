"""What a real gateway exports is accepted, in every form and by every selection."""

from pathlib import Path

import pytest

from gateway.verify.verdict import verify
from tests.verify.conftest import QUERIES

GOLDEN = Path(__file__).parent.parent / "wire" / "golden" / "rows"


@pytest.mark.parametrize("name", QUERIES)
def test_a_real_export_is_accepted(exports, tmp_path: Path, name):
    """All of its claims can be derived from it alone."""
    file = tmp_path / "rows"
    file.write_bytes(exports[name].content)
    verdict = verify(file, strict=True)

    assert verdict.mismatch is None, str(verdict)
    assert verdict.rows > 0


@pytest.mark.parametrize("name", ["once", "split", "duplicate", "latest", "stale", "base64", "base85"])
def test_the_golden_exports_are_accepted(name):
    """Those that the exporter is held to."""
    verdict = verify(GOLDEN / f"{name}.ndjson")

    assert verdict.mismatch is None, str(verdict)
    assert verdict.rows > 0
