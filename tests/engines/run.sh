#!/bin/bash
# Every test of this folder, by the Python of the engine that its name names: vllm_*, *_vllm_*,
# kv_events_* by vLLM's, sglang likewise, lmcache likewise, what is left by Debian's own. Says what it
# did with each. Exit codes: 0 all that ran passed, 1 one did not, 77 an engine is not installed and
# all else passed.
#
#   tests/engines/run.sh [--install] [BUILD_DIR]      BUILD_DIR: build/dev; --install: install.sh first
set -u
cd "$(dirname "$0")/../.."
engines=${MOONPOOL_ENGINES:-$HOME/.cache/moonpool/engines}
if [ "${1:-}" = --install ]; then
  shift
  timeout 1500 tests/engines/install.sh vllm sglang lmcache || echo "engines: not all could be installed" >&2
fi
build=$(realpath "${1:-build/dev}")
seconds_max=600

engine_of() {
  case $1 in
    *vllm* | kv_events*) echo vllm ;;
    *sglang*) echo sglang ;;
    *lmcache*) echo lmcache ;;
    *) echo none ;;
  esac
}

export MOONPOOL_BUILD=$build MOONPOOL_BIN=$build/bin PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH}
failed=0 skipped=0 summary=
for test in tests/engines/*_test.py; do
  name=$(basename "$test" .py)
  engine=$(engine_of "$name")
  python=/usr/bin/python3
  [ "$engine" = none ] || python=$engines/$engine/bin/python
  begin=$SECONDS status=77
  if [ -x "$python" ]; then
    echo "== engines: $name"
    timeout --kill-after=10 $seconds_max "$python" "$test" && status=0 || status=$?
  else
    echo "== engines: $name SKIPPED: no $python; tests/engines/install.sh $engine makes it" >&2
  fi
  case $status in
    0) verdict=passed ;;
    77) verdict=SKIPPED skipped=$((skipped + 1)) ;;
    *) verdict="FAILED ($status)" failed=$((failed + 1)) ;;
  esac
  summary+=$(printf '%-28s %-12s %4d s' "$name" "$verdict" $((SECONDS - begin)))$'\n'
done
printf '\n%s' "$summary"
[ $failed -eq 0 ] || exit 1
[ $skipped -eq 0 ] || exit 77
