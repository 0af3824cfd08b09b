"""JSON lines on standard error: counts and ids of things, never prompts, keys or tokens."""

import logging
import sys

import structlog


def configure() -> None:
    """Send structlog and the standard library's warnings to standard error, one JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=structlog.processors.JSONRenderer()))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    # Its words on a request that is no HTTP repeat the request; what our handlers raise is logged by the server.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    steps = structlog.processors
    structlog.configure(
        processors=[steps.add_log_level, steps.TimeStamper("iso"), steps.format_exc_info, steps.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
