"""A file of rows, audited from its first to its last."""

import sys
from collections.abc import Iterator
from pathlib import Path

import structlog
from rich.console import Console
from rich.progress import BarColumn as Bar
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.audit.report import Report
from gateway.audit.scoring import Auditor, Pool
from gateway.core.types import JsonObject, float32s
from gateway.edge.log import configure as configure_log
from gateway.whole_file import whole_file
from gateway.wire.arrays import encode_numbers
from gateway.wire.row_file import check_form, count_items, need_readable, read_items, write_items


def audited(file: Path, policy: Pool, teacher: Pool | None, out: Path | None) -> Report:
    """Score the rows of `file`; with a teacher, write them to `out` as they are, and with its scores.

    Raises:
        ConfigError: the file or a row of it cannot be read, or `out` has no form that there is.
        EngineUnavailable: engines are gone, or none answers.
        OSError: `out` cannot be written.
    """
    need_readable(file)
    if out is not None:
        check_form(out)
    if not structlog.is_configured():
        configure_log()  # standard output is the report's
    report = Report()
    with Auditor(policy, teacher).running() as auditor:
        auditor.greet()
        items = _watched(file, auditor, report)
        if out is None:
            for _ in items:
                pass
            return report
        with whole_file(out) as written:
            write_items(out, written, items)
    return report


def _watched(file: Path, auditor: Auditor, report: Report) -> Iterator[JsonObject]:
    """The items, each as it is to be written, while the report grows and a bar on standard error with it."""
    columns = TextColumn("scored"), Bar(), MofNCompleteColumn(), TextColumn("rows"), TimeElapsedColumn()
    items = read_items(file)
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None if hidden else count_items(file))
        for item, found in auditor.findings(items):
            if found is None:
                yield item
                continue
            report.add(found)
            progress.advance(task)
            yield {**item, "teacher_logprobs": _written_as(item["logprobs"], found.teacher_logprobs)}


def _written_as(like: object, logprobs: list[float] | None) -> object:
    """In the form in which the row has its own."""
    if logprobs is None or isinstance(like, list):
        return logprobs
    return encode_numbers(float32s(logprobs))
