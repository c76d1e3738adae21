#!/bin/bash
# A node with 100,000 sealed objects is killed with SIGKILL and started again: all of them are
# readable in less than 2 seconds from the start of the new process, none is lost and none is wrong.
# What is measured, and how, is in node_restart.cc; its figures are the last line, as JSON.
#
#   tests/scenarios/node_restart.sh [BUILD_DIR] [OBJECTS] [BYTES]
set -eu
. "$(dirname "$0")/run.sh" "$@"
run node-restart /dev/shm
