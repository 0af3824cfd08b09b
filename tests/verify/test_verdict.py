"""What is written from the documents alone is accepted; and a file whose form is wrong is refused in one line."""

import json
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.verify.verdict import Verdict, verify
from tests.verify.writer import Turns, certified, footer_of, form, in_base64, lines, packed, rows_of


def conversation() -> Turns:
    """Two turns, of which the first is continued twice; and one that goes on from it in a full render."""
    turns = Turns()
    turns.add("a")
    turns.add("b", "a", finish_reason="length")
    turns.add("c", "a", sampled=2)
    turns.add("d", reason="history_edited", parent_id="b")
    return turns


def looked(tmp_path: Path, content: bytes, *, strict: bool = False) -> Verdict:
    """What is said of a file of this content."""
    file = tmp_path / "rows"
    file.write_bytes(content)
    return verify(file, strict=strict)


@pytest.mark.parametrize(("shared", "trained"), [("once", 11), ("split", 11), ("duplicate", 14)])
@pytest.mark.parametrize("base64", [False, True])
def test_what_the_documents_say_is_accepted(tmp_path, shared, trained, base64):
    """However shared turns are trained, and whatever form arrays have."""
    rows = rows_of(conversation(), "bcd", shared=shared)
    rows = [in_base64(row) for row in rows] if base64 else rows
    verdict = looked(tmp_path, lines(rows, footer_of(rows)), strict=True)

    assert f"3 rows, 4 turns, {trained} trained tokens: verified" == str(verdict)
    assert {"verified": True, "failure": None, "warnings": []}.items() <= verdict.as_json().items()


def test_stale_ids_are_masked_and_the_turn_is_trained(tmp_path):
    """A turn of two versions is trained where it is fresh; one of the old version alone is not."""
    turns = Turns()
    turns.add("a", policy_versions=[{"version": "v0", "start": 0, "end": 3, "source": "engine"}])
    spans = [("v0", 0, 1, "engine"), ("v1", 1, 3, "assumed")]
    turns.add(
        "b", "a", policy_versions=[dict(zip(("version", "start", "end", "source"), s, strict=True)) for s in spans]
    )
    rows = rows_of(turns, "b", masked={"a": "stale"}, max_staleness=0, stale_versions=["v0"])
    excluded = [{"session_id": "s", "turn_id": "a", "reason": "stale", "tokens": 3}]

    assert "1 rows, 2 turns, 2 trained tokens: verified" == str(
        looked(tmp_path, lines(rows, footer_of(rows, excluded)))
    )


def test_side_arrays_are_held_to_their_positions(tmp_path):
    """Routing of all but the last id; sampling masks of what was sampled; one that an engine did not say."""
    turns = Turns()
    turns.add("a")
    turns.add("b", "a")
    (row,) = rows_of(turns, "b")
    length, first = len(row["token_ids"]), 4
    routed = {"start": 0, "array": form("<u2", [length - 1, 2, 3], bytes(range((length - 1) * 12)))}
    items = [[row["token_ids"][at], 9] if 4 <= at < 7 or at >= 9 else [] for at in range(first, length)]
    flat = [number for item in items for number in item]
    offsets = [sum(map(len, items[:at])) for at in range(len(items) + 1)]
    mask = {
        "start": first,
        "offsets": form("<u4", [len(offsets)], packed("token_ids", offsets)),
        "array": form("<i4", [len(flat)], packed("token_ids", flat)),
    }
    row = certified(row | {"side_arrays": {"routed_experts": routed, "sampling_mask": mask}})
    assert looked(tmp_path, lines([row], footer_of([row]))).mismatch is None
    without = certified(row | {"side_arrays": {"routed_experts": None}})
    assert looked(tmp_path, lines([without], footer_of([without]))).mismatch is None


def test_a_page_is_read_row_by_row_and_needs_no_whole_rollouts(tmp_path):
    """Another page has the rest; what a page cannot show is said, and wrong to who is strict."""
    rows = rows_of(conversation(), "bcd")
    first = json.dumps({"data": rows[:2], "next": "3.2", "excluded": []}).encode()
    second = json.dumps({"data": rows[2:], "next": None, "excluded": []}, indent=2).encode()

    assert "2 rows, 3 turns, 8 trained tokens: verified" == str(looked(tmp_path, first))
    assert "1 rows, 1 turns, 3 trained tokens: verified" == str(looked(tmp_path, second))
    assert ("footer: expected a footer, which tells missing rows, found 'none'",) == looked(tmp_path, second).warnings
    assert looked(tmp_path, second, strict=True).mismatch is not None


def test_without_rows_there_is_nothing_wrong(tmp_path):
    """Nothing was sampled, or nothing selected."""
    assert "0 rows, 0 turns, 0 trained tokens: verified" == str(looked(tmp_path, lines([], footer_of([]))))
    assert "0 rows, 0 turns, 0 trained tokens: verified" == str(looked(tmp_path, b""))


ROWS = rows_of(conversation(), "bcd")


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        (b"hello\n", "line", "no JSON"),
        (lines(ROWS)[:-9], "line", "breaks off"),
        (lines(ROWS[:1]) + b"[]\n", "row", "an object"),
        (b'{"a": 1, "a": 2}\n', "line", "twice"),
        (b'{"a": NaN}\n', "line", "NaN"),
        (b"\x80\n", "line", "utf-8"),
        (b"[" * 100_000, "line", "no JSON"),
        (b'{"data": [] 3}', "page", "column 13"),
        (b'{"data": [], "data": []}', "page", "'data' twice"),
        (b'{"data": [{"a": NaN}]}', "page", "NaN"),
        (b'{"data": [], "next": null} x', "page", "Extra data"),
        (b'{"data": 3}', "page.data", "a list"),
        (b'{"next": null}', "page.data", "nothing there"),
        (b'{"data": [', "page", "no JSON"),
        (b'{"data": [], "excluded": 3}', "excluded", "a list"),
        (b"{}\n", "certificate", "an object"),
        (lines(ROWS, footer_of(ROWS)) + b"{}\n", "footer", "end of the file"),
        (lines([{"certificate": {"version": 2}}]), "certificate.version", "1"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_line(tmp_path, content, place, words):
    """With what is wrong about it."""
    verdict = looked(tmp_path, content)

    assert verdict.mismatch
    assert place == verdict.mismatch.at
    assert words in str(verdict)
    assert "\n" not in str(verdict)


def test_of_a_file_that_cannot_be_read_there_is_no_verdict(tmp_path):
    """The reason is the one that the system gives."""
    with pytest.raises(ConfigError, match="none cannot be read: No such file or directory"):
        verify(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        verify(tmp_path)
