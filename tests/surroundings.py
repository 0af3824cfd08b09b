"""The environment of processes that tests start."""

import os


def surroundings(**more: str) -> dict[str, str]:
    """That of this process, without what is set for a gateway, for an SDK or for the coverage of these tests; and `more`."""
    foreign = ("GATEWAY_", "OPENAI_", "COV")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return own | more
