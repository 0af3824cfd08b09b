#!/usr/bin/env bash
# The environment in which tinker-cookbook's renderers run (2 GB, a few minutes): see tests/environment.sh.

# What the renderers import, and what our tests do.
PACKAGES=(
  torch==2.13.0 tinker pillow
  aiohttp orjson urllib3 'transformers>=5.7' pydantic-settings prometheus-client structlog typer rich uvloop jinja2
  renderers httpx tiktoken
  pytest pytest-asyncio pytest-xdist hypothesis
)
# Most of what the cookbook itself asks for is for training and none of that is imported here; and it wants a
# tml-renderers (0.4.1, of which only the renderers of two families make use) that not every index has.
BARE=tinker-cookbook==0.6.1
. "$(dirname "$0")/../environment.sh"
