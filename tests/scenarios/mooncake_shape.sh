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
cd "$(dirname "$0")/../.."
engines=${MOONPOOL_ENGINES:-$HOME/.cache/moonpool/engines}
if [ "${1:-}" = --install ]; then
  shift
  tests/engines/install.sh sglang vllm lmcache || exit 2
fi
build=$(realpath -m "${1:-build/dev}")
missing=""
for file in bin/moonpool bin/moonpool-master bin/moonpool-node python/moonpool/__init__.py; do
  [ -e "$build/$file" ] || missing="$missing $build/$file"
done
if [ -n "$missing" ]; then
  echo "mooncake_shape: no$missing; build them (make dev)" >&2
  exit 2
fi

figures=""
status=0
# run NAME PYTHON: the last line of the test is its figures.
run() {
  local line code=0
  line=$(MOONPOOL_BUILD=$build MOONPOOL_BIN=$build/bin "$2" "tests/engines/mooncake_$1_test.py" |
    tail -n 1) || code=$?
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
run setup python3
run shape python3
for engine in sglang vllm lmcache; do
  python=$engines/$engine/bin/python
  if [ -x "$python" ]; then
    run $engine "$python"
  else
    echo "mooncake_shape: SKIPPED, no $python; --install makes it" >&2
    [ $status -ne 0 ] || status=77
  fi
done
case $status in 0) holds=true ;; *) holds=false ;; esac
echo "{\"scenario\": \"mooncake_shape\", \"holds\": $holds, \"tests\": [$figures]}"
exit $status
