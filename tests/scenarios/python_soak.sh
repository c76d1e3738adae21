#!/bin/bash
# A million put/get cycles by one Python process: every byte right, resident memory flat. Figures are
# the last line, as JSON.
#
#   tests/scenarios/python_soak.sh [BUILD_DIR] [CYCLES]
set -eu
. "$(dirname "$0")/run.sh" "$@"
need $python_package
exec "${PYTHON:-/usr/bin/python3}" tests/scenarios/python_soak.py "$build" "${args[@]}"
