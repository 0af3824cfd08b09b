#!/usr/bin/env bash
# Install what the tests of deploy/ run, as Debian packages it, where it is not there. Needs root where something is missing.
# No packaged service is started: the tests run their own, on free ports of this machine.
set -euo pipefail

packages=(
  haproxy
  nginx-light
  prometheus
  systemd
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ ! -e /usr/sbin/policy-rc.d ]; then # what postinst scripts ask before they start a service
  printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"
