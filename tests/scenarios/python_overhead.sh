#!/bin/bash
# What Python costs over C++ for the same reads, in turns with it: get_into_many of 32 x 1 MiB at
# least 0.9 of C++'s rate, a 4 KiB get less than twice its time. Figures are the last line, as JSON.
# Needs numpy.
#
#   tests/scenarios/python_overhead.sh [BUILD_DIR] [ROUNDS]
set -eu
. "$(dirname "$0")/run.sh" "$@"
need bin/sdk-peer $python_package
exec "${PYTHON:-/usr/bin/python3}" tests/scenarios/python_overhead.py "$build" "${args[@]}"
