#!/bin/bash
# Five minutes of faults: nodes, masters, clients and etcd are killed, stopped, cut off and wiped in
# random order while clients work; nothing that they saw may be impossible (tests/history). Figures
# are the last line, as JSON. Needs root, nftables, and etcd where there are three masters.
#
#   tests/scenarios/chaos.sh [BUILD_DIR] [--masters 1|3] [--seed N] [--seconds N] [--logs FOLDER]
set -eu
build=$(realpath "${1:-build/release}")
program=$build/bin/chaos
for needed in "$program" "$build/bin/moonpool-master" "$build/bin/moonpool-node"; do
  if [ ! -x "$needed" ]; then
    echo "chaos: no $needed; build it (make release, or make dev and name build/dev)" >&2
    exit 2
  fi
done
exec "$program" --seconds 300 --seed "$(date +%s)" "${@:2}"
