"""What the documents link to is there."""

import re
from pathlib import Path

import pytest

from tests.readme.documents import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def slugs(document: Path) -> set[str]:
    """What the headings of a document are linked by."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Files, folders, and headings."""
    for link in re.findall(r"\]\(([^)\s]+)\)", _BLOCK.sub("", document.read_text())):
        if link.startswith(("https://", "http://")):
            continue
        file, _, heading = link.partition("#")
        target = document.parent / file if file else document
        assert target.exists(), link
        assert not heading or heading in slugs(target), link
