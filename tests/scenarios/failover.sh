#!/bin/bash
# The leader of three masters is killed, stopped and cut off, five times each: puts go on in less
# than 3 seconds (median of each five), gets of known locations see no error, and nothing that was
# acknowledged is lost or wrong. What is measured, and how, is in failover.cc; its figures are the
# last line, as JSON. Needs root, nftables and etcd.
#
#   tests/scenarios/failover.sh [BUILD_DIR] [ROUNDS]
set -eu
. "$(dirname "$0")/run.sh" "$@"
run failover /tmp
