#!/bin/bash
# Five minutes of faults: nodes, masters, clients and etcd are killed, stopped, cut off and wiped in
# random order while clients work; nothing that they saw may be impossible (tests/history). Figures
# are the last line, as JSON. Needs root, nftables, and etcd where there are three masters.
#
#   tests/scenarios/chaos.sh [BUILD_DIR] [--masters 1|3] [--seed N] [--seconds N] [--logs FOLDER]
set -eu
. "$(dirname "$0")/run.sh" "$@"
need bin/chaos bin/moonpool-master bin/moonpool-node
exec "$build/bin/chaos" --seconds 300 --seed "$(date +%s)" "${args[@]}"
