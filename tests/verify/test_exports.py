"""What a real gateway exports is accepted, in every form and by every selection."""

from pathlib import Path

import pytest

from gateway.verify.verdict import verify
from tests.verify.conftest import QUERIES
from tests.verify.writer import footer_of, lines

GOLDEN = Path(__file__).parent.parent / "wire" / "golden" / "rows"


@pytest.mark.parametrize("name", [*QUERIES, "pulled"])
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


def test_a_session_alone_of_a_rollout_of_several_is_accepted_with_a_warning(exports, tmp_path):
    """Its rows count those of the others; a footer shows that none of its own is missing."""
    file = tmp_path / "rows"
    rows = [row for row in exports["pulled"].rows if row["session_id"] == "q"]
    file.write_bytes(lines(rows, footer_of(rows)))

    assert verify(file).mismatch is None
    assert "4 rows of the rollout q, found 2 in this file, and none with row_index 2" in verify(file).warnings[0]
    assert "n_rows" == getattr(verify(file, strict=True).mismatch, "at", None)
    file.write_bytes(lines(rows))
    assert "n_rows" == getattr(verify(file).mismatch, "at", None)
