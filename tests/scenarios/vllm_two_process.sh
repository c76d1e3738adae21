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
. "$(dirname "$0")/run.sh" "$@"
install_engines vllm
is_there vllm || exit 77
need $python_package
folder=$(mktemp -d /tmp/moonpool-vllm-XXXXXX) || exit 2
status=0
"$python" tests/engines/vllm_two_process.py "$folder" "${args[@]}" || status=$?
if [ $status -eq 0 ]; then
  rm -rf "$folder"
else
  echo "vllm_two_process: the engines' logs are in $folder" >&2
fi
exit $status
