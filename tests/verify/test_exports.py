"""What a real gateway exports is accepted, in every form and by every selection."""

from pathlib import Path

import pytest

from gateway.verify.verdict import verify
from tests.verify.conftest import QUERIES


@pytest.mark.parametrize("name", QUERIES)
def test_a_real_export_is_accepted(exports, tmp_path: Path, name):
    """All of its claims can be derived from it alone."""
    file = tmp_path / "rows"
    file.write_bytes(exports[name].content)
    verdict = verify(file, strict=True)

    assert verdict.mismatch is None, str(verdict)
    assert verdict.rows > 0
