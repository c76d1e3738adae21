#!/bin/bash
# A million put/get cycles by one Python process: every byte right, resident memory flat. Figures are
# the last line, as JSON.
#
#   tests/scenarios/python_soak.sh [BUILD_DIR] [CYCLES]
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/release}
for needed in "$build/bin/moonpool" "$build/python/moonpool/__init__.py"; do
  if [ ! -e "$needed" ]; then
    echo "python_soak: no $needed; build it (make release, or make dev and name build/dev)" >&2
    exit 2
  fi
done
PYTHONPATH=$build/python exec "${PYTHON:-/usr/bin/python3}" tests/scenarios/python_soak.py "$build" "${@:2}"
