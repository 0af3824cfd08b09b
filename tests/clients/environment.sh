#!/usr/bin/env bash
# The environment in which real agent packages run (0.9 GB, about 2 minutes): see tests/environment.sh.
PACKAGES=(openai litellm langchain-openai openai-agents 'pydantic-ai-slim[openai]' mini-swe-agent)
BARE=
. "$(dirname "$0")/../environment.sh"
