"""What more than one room's tests need."""

import signal

import pytest
import structlog
from hypothesis import settings

from tests.tokenizers.folders import folder_of

# Shells have jobs in the background ignore both, and processes that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How far property tests look: `make check` and `make check-deep`. Machines share their cores, so no example has a deadline.
structlog.configure()  # as it comes, so that each test's log is caught with its output

settings.register_profile("default", max_examples=100, deadline=None)
settings.register_profile("deep", max_examples=5000, deadline=None)
settings.load_profile("default")


@pytest.fixture(scope="session")
def tokenizer_folder() -> str:
    """The folder of the real Qwen3 tokenizer, made on first use."""
    return str(folder_of("qwen3"))
