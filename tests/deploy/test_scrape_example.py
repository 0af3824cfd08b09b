"""The scrape job of the operator's quick start, as Prometheus itself reads it."""

import subprocess
from pathlib import Path

from tests.readme.documents import ROOT, texts_of


def test_the_job_that_the_quick_start_shows_is_sound_beside_our_rules(tmp_path: Path):
    """With the file of rules and the key that it names beside it."""
    (job,) = texts_of(ROOT / "docs" / "quickstart-operator.md", "yaml")
    (tmp_path / "prometheus.yml").write_text(job)
    (tmp_path / "rules.yml").write_text((ROOT / "deploy" / "prometheus" / "rules.yml").read_text())
    (tmp_path / "gateway-admin-key").write_text("key")
    told = subprocess.run(
        ["promtool", "check", "config", "prometheus.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert told.returncode == 0, told.stdout + told.stderr
    assert "1 rule files found" in told.stdout
