#!/bin/bash
# A master with 1,000,000 objects on three nodes is killed with SIGKILL and started again: the first
# get is served in less than 2 seconds from the start of the new process, the index is whole in less
# than 10, none is lost and none is wrong; with a meta store and without. What is measured, and how,
# is in master_restart.cc; its figures are the last line, as JSON.
#
#   tests/scenarios/master_restart.sh [BUILD_DIR] [OBJECTS] [BYTES]
set -eu
. "$(dirname "$0")/run.sh" "$@"
run master-restart /tmp
