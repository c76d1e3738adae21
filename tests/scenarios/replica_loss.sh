#!/bin/bash
# One of three nodes is killed for good while clients put and get objects of two replicas: no get
# fails, and soon every object has two replicas again, which the loss of a second node proves. What
# is measured, and how, is in replica_loss.cc; its figures are the last line, as JSON.
#
#   tests/scenarios/replica_loss.sh [BUILD_DIR] [OBJECTS] [BYTES]
set -eu
. "$(dirname "$0")/run.sh" "$@"
run replica-loss /tmp
