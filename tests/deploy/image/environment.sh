#!/usr/bin/env bash
# What builds and runs the image where there is no container engine. Prints a folder: of buildah's store, in it the image
# localhost/python-sim:3.13, which stands in for the Dockerfile's python:3.13-slim-trixie: the same Debian with its own
# Python 3.13, made from Debian's packages, since no registry of images need be in reach. Needs root; made once a machine.
set -euo pipefail
. "$(dirname "$0")/../packages.sh"

cache=${ROLLOUT_GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollout-gateway}
folder=$cache/image-1
mkdir -p "$cache"

packages buildah mmdebstrap bubblewrap debian-archive-keyring

exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/.done" ]; then
  rm -rf "$folder" && mkdir -p "$folder/tmp"
  export TMPDIR=$folder/tmp
  mmdebstrap --quiet --mode=root --variant=minbase --include=python3,python3-venv,ca-certificates \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt=force-unsafe-io \
    trixie "$TMPDIR/base.tar" "$(mirror)" >&2
  buildah=(buildah --root "$folder/storage" --runroot "$folder/run" --storage-driver)
  driver=overlay # vfs copies all files at each step, but needs nothing of the kernel
  "${buildah[@]}" "$driver" images >&2 || driver=vfs
  buildah+=("$driver")
  echo "$driver" >"$folder/driver"
  base=$("${buildah[@]}" from scratch)
  "${buildah[@]}" add --quiet "$base" "$TMPDIR/base.tar" / >&2
  "${buildah[@]}" commit --quiet --rm "$base" localhost/python-sim:3.13 >&2
  rm "$TMPDIR/base.tar"
  touch "$folder/.done"
fi
echo "$folder"
