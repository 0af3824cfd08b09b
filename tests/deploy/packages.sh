# Install Debian packages where they are not there: `packages NAME…`. Sourced. Needs root where something is missing.
# No packaged service is started. Two callers wait for each other: apt's own lock on its lists waits for nobody, and
# the file that keeps services from starting must not go while another caller installs.
# shellcheck shell=bash

packages() {
  local missing policy=${PACKAGES_POLICY:-/usr/sbin/policy-rc.d} # what postinst scripts ask before they start a service
  missing=$(packages_missing "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    echo "these packages are missing, and only root can install them: apt-get install" $missing >&2
    return 1
  fi
  (
    exec 8</var/lib/dpkg
    flock 8
    missing=$(packages_missing "$@")
    [ -n "$missing" ] || exit 0
    if [ ! -e "$policy" ]; then
      trap 'rm -f "$policy"' EXIT
      printf '#!/bin/sh\nexit 101\n' >"$policy"
      chmod +x "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet >&2
    # shellcheck disable=SC2086  # a name a word
    apt-get install --quiet --yes --no-install-recommends -o DPkg::Lock::Timeout=300 $missing </dev/null >&2
  )
}

packages_missing() {
  local package
  for package in "$@"; do
    dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

mirror() { # where this machine has its Debian from
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1
}
