#!/usr/bin/env bash
# Fetch, once a machine, what Compose files are held to, and print the folder where it lies:
#
#   schema-VERSION.json   Compose's JSON schema, as two releases of dclint (npm) carry it, years apart
#   docker-compose        Compose itself, from Debian's package, on any Debian: `config` needs no engine
set -euo pipefail
. "$(dirname "$0")/../packages.sh"

suite=trixie # where Debian has Compose 2
cache=${ROLLOUT_GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollout-gateway}
folder=$cache/compose-1
mkdir -p "$cache"

schema() {
  npm pack --silent "dclint@$1" >&2
  echo "$2  dclint-$1.tgz" | sha256sum --check --quiet >&2
  tar --extract --gzip --to-stdout --file "dclint-$1.tgz" package/schemas/compose.schema.json >"schema-$1.json"
  rm "dclint-$1.tgz"
}

compose() { # by an apt of its own, so that the machine's lists and packages stay as they are
  mkdir -p apt/state/lists/partial apt/cache/archives/partial
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $suite main" \
    >apt/sources.list
  local own=(
    --option "Dir::Etc::SourceList=$PWD/apt/sources.list" --option Dir::Etc::SourceParts=-
    --option "Dir::State=$PWD/apt/state" --option "Dir::Cache=$PWD/apt/cache"
    --option Acquire::Languages=none --option APT::Sandbox::User=
  )
  apt-get "${own[@]}" --quiet update >&2
  apt-get "${own[@]}" --quiet download docker-compose >&2
  dpkg-deb --extract docker-compose_*.deb unpacked
  mv unpacked/usr/libexec/docker/cli-plugins/docker-compose docker-compose
  rm -rf apt unpacked docker-compose_*.deb
}

exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/.done" ]; then
  packages debian-archive-keyring
  command -v npm >/dev/null || packages npm # whoever has Node from elsewhere has npm with it
  rm -rf "$folder" && mkdir "$folder"
  (
    cd "$folder"
    schema 2.2.2 6e3f351094dc81d3e3b5089d0a25702a84c4a4d1649090512c48e36fa2e0d57d
    schema 3.1.0 73fc6079a0408c80c7ccea9e9e5c21c40551afaf15e8c1ee25a5ad6af1ec0414
    compose
  )
  touch "$folder/.done"
fi
echo "$folder"
