#!/bin/bash
# Back ends that were written for Mooncake run on a Moonpool as they are: every call of mooncake.store
# returns what its callers expect, SGLang's back end passes its own tests and moves the pages of its own
# host pools, vLLM's store worker saves, finds and loads its blocks, LMCache's connector its chunks. No
# GPU, no model. The bar: all tests pass. The last line says how many ran where, as JSON.
#
#   tests/scenarios/mooncake_shape.sh [--install] [BUILD_DIR]
#
# Engines are looked for in $MOONPOOL_ENGINES (default ~/.cache/moonpool/engines); --install makes them
# there (tests/engines/install.sh). Exit codes: 0 the bar holds, 1 it does not, 2 it cannot run here,
# 77 an engine is not installed (what needs none is tested all the same).
set -eu
. "$(dirname "$0")/run.sh" "$@"
install_engines sglang vllm lmcache
need $python_package

figures=""
status=0
# measure NAME PYTHON: the last line of the test is its figures.
measure() {
  local line code=0
  line=$("$2" "tests/engines/mooncake_$1_test.py" | tail -n 1) || code=$?
  case $code in
    0) ;;
    77) [ $status -ne 0 ] || status=77 ;;
    *) status=1 ;;
  esac
  if [ $code -eq 77 ] || [ "${line:0:1}" != "{" ]; then
    line="{\"test\": \"mooncake_$1\", \"ran\": 0, \"exit\": $code}"
  fi
  figures="$figures${figures:+, }$line"
}
set -o pipefail
for needs_no_engine in setup shape outage patience; do
  measure $needs_no_engine "${PYTHON:-/usr/bin/python3}"
done
for engine in sglang vllm lmcache; do
  if is_there $engine; then
    measure $engine "$python"
  elif [ $status -eq 0 ]; then
    status=77
  fi
done
case $status in 0) holds=true ;; *) holds=false ;; esac
echo "{\"scenario\": \"mooncake_shape\", \"holds\": $holds, \"tests\": [$figures]}"
exit $status
