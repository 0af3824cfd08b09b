# Make, once a machine and set of pins, the environment of the tests in a folder. The folder's own environment.sh sources
# this, and says what is in it: `PACKAGES`, and `BARE`, a package that is installed without what it asks for, or nothing.
#
#   environment.sh         a venv with what requirements.txt pins; prints its path
#   environment.sh lock    write requirements.txt anew: the newest of each package
#
# The venv's name holds a digest of the pins, so other pins get another one. A finished venv is not made
# again, a half-made one is made anew, and two callers wait for each other.
# shellcheck shell=bash
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
cache=${ROLLOUT_GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollout-gateway}
mkdir -p "$cache"

lock() {
  fresh=$(mktemp -d)
  trap 'rm -rf "$fresh"' EXIT
  "$python" -m venv "$fresh"
  "$fresh/bin/pip" install --quiet "${PACKAGES[@]}" >&2
  "$fresh/bin/pip" freeze | sed -E 's/^(torch==[^+]*)\+.*/\1/' >"$here/requirements.txt"
}

make_venv() {
  [ -e "$venv/.done" ] && return
  rm -rf "$venv" && "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --requirement "$here/requirements.txt" >&2
  "$venv/bin/pip" check >&2
  [ -z "$BARE" ] || "$venv/bin/pip" install --quiet --no-deps "$BARE" >&2
  touch "$venv/.done"
}

case "${1:-}" in
  lock) lock ;;
  '')
    pins=$({ "$python" --version && cat "$here/requirements.txt" && printf %s "$BARE"; } | sha256sum | cut -c1-12)
    venv=$cache/$(basename "$here")-$pins
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
