#!/usr/bin/env bash
# Install what the tests of deploy/ run, as Debian packages it, where it is not there: see packages.sh.
# The tests run their own processes, on free ports of this machine.
set -euo pipefail
. "$(dirname "$0")/packages.sh"

packages haproxy nginx-light prometheus systemd
