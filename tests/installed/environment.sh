#!/usr/bin/env bash
# An environment with nothing in it but this tree's wheel, what that asks for, and pytest (0.5 GB, a minute); prints its
# path. It is kept for as long as what the wheel asks for stays the same; the wheel itself is built and installed anew
# each time. Versions are those of requirements-dev.lock, and nothing of it is installed that the wheel does not ask for.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
cache=${ROLLOUT_GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollout-gateway}
mkdir -p "$cache"
needs=$(sed -n '/^dependencies = \[/,/^\]/p; /^demo = \[/,/^\]/p' "$root/pyproject.toml")
pins=$({ "$python" --version && echo "$needs" && cat "$root/requirements-dev.lock"; } | sha256sum | cut -c1-12)
venv=$cache/installed-$pins
exec 9>"$venv.lock"
flock 9

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
if [ ! -e "$venv/.done" ]; then
  rm -rf "$venv" && "$python" -m venv "$venv"
fi
"$venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$wheels" "$root" >&2
wheel=$(echo "$wheels"/*.whl)
if [ ! -e "$venv/.done" ]; then
  "$venv/bin/pip" install --quiet --constraint "$root/requirements-dev.lock" "$wheel[demo]" pytest >&2
  touch "$venv/.done"
else
  "$venv/bin/pip" install --quiet --no-deps --force-reinstall "$wheel" >&2
fi
"$venv/bin/pip" check >&2
echo "$venv"
