"""Write the files in `rows/` anew: ``python -m tests.wire.golden.make_rows``. Read what has changed in them."""

from pathlib import Path

from tests.wire.rows import QUERIES, export

OUT = Path(__file__).parent / "rows"

if __name__ == "__main__":
    for name, query in QUERIES.items():
        (OUT / f"{name}.ndjson").write_bytes(export(query))
