#!/bin/bash
# A node with 100,000 sealed objects is killed with SIGKILL and started again: all of them are
# readable in less than 2 seconds from the start of the new process, none is lost and none is wrong.
# What is measured, and how, is in node_restart.cc; its figures are the last line, as JSON.
#
#   tests/scenarios/node_restart.sh [BUILD_DIR] [OBJECTS] [BYTES]
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/release}
if [ ! -x "$build/bin/node-restart" ]; then
  echo "node_restart: no $build/bin/node-restart; the release preset builds no tests: use build/dev" >&2
  exit 2
fi
folder=$(mktemp -d /dev/shm/moonpool-node-restart-XXXXXX)
trap 'rm -rf "$folder"' EXIT
"$build/bin/node-restart" "$folder" "${@:2}"
