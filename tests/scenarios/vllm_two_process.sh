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
# --install makes it there (tests/engines/install.sh). Takes some minutes: engines start slowly.
# Exit codes: 0 all bars hold, 1 they do not, 2 it cannot run here, 77 the engine is not installed.
set -eu
cd "$(dirname "$0")/../.."
python=${MOONPOOL_ENGINES:-$HOME/.cache/moonpool/engines}/vllm/bin/python
if [ "${1:-}" = --install ]; then
  shift
  tests/engines/install.sh vllm || exit 2
elif [ ! -x "$python" ]; then
  echo "vllm_two_process: no $python; --install makes it" >&2
  exit 77
fi
build=$(realpath -m "${1:-build/dev}")
[ $# -eq 0 ] || shift

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
MOONPOOL_BIN=$build/bin PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} \
  "$python" tests/engines/vllm_two_process.py "$folder" "$@" || status=$?
if [ $status -eq 0 ]; then
  rm -rf "$folder"
else
  echo "vllm_two_process: the engines' logs are in $folder" >&2
fi
exit $status
