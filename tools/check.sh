#!/usr/bin/env bash
# What is checked before a change lands, beyond `make test`. Runs every stage, then says which
# failed and what each took.
#   tools/check.sh [stage ...]     stages: format shared mutation bench asan tsan sim; engines,
#                                  which installs gigabytes, runs only where it is asked for
# A stage that cannot run here says so, loudly, and is SKIPPED: that is no failure and no pass.
set -uo pipefail
cd "$(dirname "$0")/.."

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(format shared mutation bench asan tsan sim)

build() {
  cmake --preset "$1" --log-level=WARNING "${@:2}" && cmake --build --preset "$1" -- --quiet
}

check_format() {
  git ls-files '*.c' '*.cc' '*.h' '*.inc' | xargs -r clang-format --dry-run -Werror
}

# Shared libraries: something used but not linked fails here and nowhere else. Nothing is compiled
# twice: the objects are those of the dev build, from the compiler cache.
check_shared() { build shared; }

# Without each guard of the product a seed of the simulator fails, or a unit test. Most objects are
# those of the dev build here, too.
check_mutation() {
  build mutation && build/mutation/bin/moonpool-sim --mutations tests/sim/mutations.txt
}

# What has become several times slower, by ratios within one run of the release build.
check_bench() {
  cmake --preset release --log-level=WARNING &&
    cmake --build --preset release --target moonpool moonpool-master moonpool-node -- --quiet &&
    python3 bench/guard.py build/release
}

# With clang, which also analyses the locks and brings the fuzzers' engine, and every header alone.
check_asan() {
  build asan -DMOONPOOL_FUZZ_SECONDS="${FUZZ_SECONDS:-5}" &&
    cmake --build --preset asan --target all_verify_interface_header_sets -- --quiet &&
    ctest --preset asan
}

check_tsan() { build tsan && ctest --preset tsan; }

# The long set of the simulator; a violation says the seed.
check_sim() {
  cmake --preset dev --log-level=WARNING &&
    cmake --build --preset dev --target moonpool-sim -- --quiet &&
    build/dev/bin/moonpool-sim --seeds "${SIM_SEEDS:-2000}" --jobs "$(nproc)" --keep-going
}

# The Python package in real engines, which are installed from PyPI where they are not there yet
# (MOONPOOL_ENGINES_INSTALL=0: they are not).
check_engines() {
  local install=--install
  [ "${MOONPOOL_ENGINES_INSTALL:-1}" = 1 ] || install=
  cmake --preset dev --log-level=WARNING &&
    cmake --build --preset dev --target moonpool moonpool-master moonpool-node moonpool_python -- --quiet &&
    tests/engines/run.sh $install build/dev
}

summary=""
failed=0
for stage in "${stages[@]}"; do
  echo "== check: $stage"
  begin=$SECONDS
  status=0
  "check_$stage" || status=$?
  case $status in
    0) verdict=passed ;;
    77) verdict=SKIPPED ;;
    *) verdict=FAILED failed=$((failed + 1)) ;;
  esac
  summary+=$(printf '%-8s %-7s %4d s' "$stage" "$verdict" $((SECONDS - begin)))$'\n'
done
printf '\n%s' "$summary"
[ $failed -eq 0 ]
