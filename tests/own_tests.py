"""Is each file of core/ and wire/ wholly covered by its own test, branch by branch?

``python -m tests.own_tests`` names what is missing and exits with 1. All tests of both rooms run in one
process, but what they execute counts only for the test file that they stand in. Property tests are left out, so
that the answer does not depend on luck.
"""

import sys
from collections.abc import Generator
from importlib import import_module
from io import StringIO
from pathlib import Path

import coverage
import pytest

TOP = Path(__file__).parent.parent
ROOMS = ("core", "wire")
FILES = [f for room in ROOMS for f in sorted((TOP / "gateway" / room).glob("*.py")) if f.stem != "__init__"]
IMPORTED = "imported"
"""The context of what a file executes when it is imported, which is the same for every test."""


class Bookkeeper:
    """Tells coverage which test file is at work: while it is imported, and while its tests run."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        self._measured.switch_context(collector.path.relative_to(TOP).as_posix())
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._measured.switch_context(item.path.relative_to(TOP).as_posix())
        return (yield)


def own_tests(file: Path) -> list[str]:
    """The tests of one file, from the top: that of its name, and those whose longer names are no other file's."""
    others = {f"test_{other.stem}" for other in FILES if other.parent == file.parent} - {f"test_{file.stem}"}
    found = sorted((TOP / "tests" / file.parent.name).glob(f"test_{file.stem}*.py"))
    return [test.relative_to(TOP).as_posix() for test in found if test.stem not in others]


def missing(measured: coverage.Coverage, file: Path) -> str:
    """What the file's own test leaves out, as coverage's table shows it; empty when it is nothing."""
    table = StringIO()
    contexts = [f"^{context}$" for context in (IMPORTED, *own_tests(file))]
    percent = measured.report([str(file)], show_missing=True, file=table, contexts=contexts)
    return "" if percent == 100 else table.getvalue()


def main() -> int:
    """Run the tests, then judge each file: 0 when all is covered, else 1."""
    measured = coverage.Coverage(data_file=None, branch=True, source=[f"gateway.{room}" for room in ROOMS])
    measured.start()
    measured.switch_context(IMPORTED)
    for file in FILES:
        import_module(f"gateway.{file.parent.name}.{file.stem}")
    failed = pytest.main(["-q", "-m", "not hypothesis", "tests/core", "tests/wire"], [Bookkeeper(measured)])
    measured.stop()
    gaps = {file: gap for file in FILES if (gap := missing(measured, file))}
    for file, gap in gaps.items():
        print(f"{' and '.join(own_tests(file)) or 'no test'} covers less than all of its file:\n{gap}")
    print(f"{len(FILES) - len(gaps)} of {len(FILES)} files are wholly covered by their own tests")
    return int(bool(failed or gaps))


if __name__ == "__main__":
    sys.exit(main())
