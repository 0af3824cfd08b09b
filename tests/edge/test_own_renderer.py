"""The renderer that docs/renderers.md shows, in a gateway before a simulated engine."""

from pathlib import Path

import pytest

from gateway.render.demo import MODEL_NAME
from gateway.render.registry import load_tokenizer
from tests.edge.house import HELLO, OpenHouse, Words, user
from tests.readme.documents import ROOT, texts_of


async def test_the_renderer_of_the_docs_serves_and_bridges(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In thirty lines: two turns are one row, each id as it was sampled."""
    (code,) = [block for block in texts_of(ROOT / "docs" / "renderers.md", "python") if "class " in block]
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    tokenizer = load_tokenizer(MODEL_NAME, MODEL_NAME)
    words, end = Words(tokenizer), tokenizer.get_vocab()["<|im_end|>"]
    script = [*words.spelt("Hi."), end]

    monkeypatch.setenv("GATEWAY_RENDERER", "mine:ChatML")
    house = await open_house(model=MODEL_NAME, model_name=MODEL_NAME)
    first = await house.ask("s", HELLO, script)
    second = await house.ask("s", [*HELLO, first.message, user("And?")], script)
    (row,) = await house.rows("s")
    told = tokenizer.decode(row["token_ids"])

    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    assert (first.message["content"], second.status) == ("Hi.", 200)
    assert [turn["how"] for turn in await house.turns("s")] == ["rendered", "bridged"]
    assert told.endswith("Hi.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\nHi.<|im_end|>")
