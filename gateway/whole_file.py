"""A file that is there whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_READABLE = 0o644


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write to a file of a temporary name beside `path`, which takes its place when the block ends well.

    Whatever fails in the block leaves `path` as it was, and nothing beside it.

    Raises:
        OSError: it cannot be written.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(_READABLE & ~mask)
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise
