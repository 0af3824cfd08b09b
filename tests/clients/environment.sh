#!/usr/bin/env bash
# Make, once a machine and set of pins, the environment in which real agent packages run:
#
#   environment.sh         a venv with what requirements.txt pins   (0.9 GB, about 2 minutes); prints its path
#   environment.sh lock    write requirements.txt anew: the newest of each package
#
# The venv's name holds a digest of the pins, so other pins get another one. A finished venv is not made
# again, a half-made one is made anew, and two callers wait for each other.
set -euo pipefail

PACKAGES=(openai litellm langchain-openai openai-agents 'pydantic-ai-slim[openai]' mini-swe-agent)

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
cache=${ROLLOUT_GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollout-gateway}
mkdir -p "$cache"

lock() {
  fresh=$(mktemp -d)
  trap 'rm -rf "$fresh"' EXIT
  "$python" -m venv "$fresh"
  "$fresh/bin/pip" install --quiet "${PACKAGES[@]}" >&2
  "$fresh/bin/pip" freeze >"$here/requirements.txt"
}

make_venv() {
  [ -e "$venv/.done" ] && return
  rm -rf "$venv" && "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --requirement "$here/requirements.txt" >&2
  "$venv/bin/pip" check >&2
  touch "$venv/.done"
}

case "${1:-}" in
  lock) lock ;;
  '')
    venv=$cache/clients-$({ "$python" --version && cat "$here/requirements.txt"; } | sha256sum | cut -c1-12)
    exec 9>"$venv.lock"
    flock 9
    make_venv
    echo "$venv"
    ;;
  *)
    echo "usage: environment.sh [lock]" >&2
    exit 2
    ;;
esac
