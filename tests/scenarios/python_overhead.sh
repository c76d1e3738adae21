#!/bin/bash
# What Python costs over C++ for the same reads, in turns with it: get_into_many of 32 x 1 MiB at
# least 0.9 of C++'s rate, a 4 KiB get less than twice its time. Figures are the last line, as JSON.
# Needs numpy.
#
#   tests/scenarios/python_overhead.sh [BUILD_DIR] [ROUNDS]
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/release}
for needed in "$build/bin/sdk-peer" "$build/bin/moonpool" "$build/python/moonpool/__init__.py"; do
  if [ ! -e "$needed" ]; then
    echo "python_overhead: no $needed; build it (make release, or make dev and name build/dev)" >&2
    exit 2
  fi
done
PYTHONPATH=$build/python exec "${PYTHON:-/usr/bin/python3}" tests/scenarios/python_overhead.py "$build" "${@:2}"
