#!/bin/bash
# SGLang's hierarchical cache on a Moonpool, with SGLang's own host pools and cache controllers on the
# CPU (no GPU, no model): pages of every layout come back bit for bit, outages are misses, and pages
# move faster than through SGLang's file back end on a folder in memory. SGLang's Mooncake back end, as
# it is, on our package of that name goes with it. The bar: all tests pass, no page is lost or wrong,
# and both paths are at least as fast as files, shared memory twice as fast to fetch. The last line is
# figures, as JSON: tests, pages stored, found and fetched, bytes per second both ways, times the files'.
#
#   tests/scenarios/sglang_hicache.sh [--install] [BUILD_DIR]
#
# The engine is looked for in $MOONPOOL_ENGINES/sglang (default ~/.cache/moonpool/engines/sglang);
# --install makes it there (tests/engines/install.sh). Exit codes: 0 the bar holds, 1 it does not, 2 it
# cannot run here, 77 the engine is not installed.
set -eu
. "$(dirname "$0")/run.sh" "$@"
install_engines sglang
is_there sglang || exit 77
need $python_package

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 tests=""
for name in sglang_hicache sglang_server sglang_outage sglang_controller mooncake_sglang; do
  code=0
  "$python" -W ignore "tests/engines/${name}_test.py" >"$log" 2>&1 || code=$?
  ran=$(sed -n 's/^Ran \([0-9]*\) tests\? in .*/\1/p' "$log")
  if [ $code -eq 0 ] && [ "${ran:-0}" -gt 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    cat "$log" >&2
    echo "sglang_hicache: ${name}_test.py ended with $code" >&2
  fi
  tests="$tests${tests:+, }\"$name\": ${ran:-0}"
done

code=0
figures=$("$python" -W ignore tests/engines/sglang_figures.py | tail -n 1) || code=$?
[ "${figures:0:1}" = "{" ] || figures=null
holds=true
[ $failed -eq 0 ] && [ $code -eq 0 ] || holds=false
echo "{\"scenario\": \"sglang_hicache\", \"holds\": $holds, \"tests\": {$tests}, \"figures\": $figures}"
[ $holds = true ]
