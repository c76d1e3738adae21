# Sourced by the scripts of this folder: run NAME PARENT [BUILD_DIR] [ARGS...] runs the program of a
# scenario with a folder of its own under PARENT, which goes with it. Exit codes: 0 all bars hold, 1
# they do not, 2 it cannot run here. Figures are the last line, as JSON.
run() {
  local name=$1 parent=$2 build=${3:-build/release} folder status=0
  cd "$(dirname "${BASH_SOURCE[0]}")/../.."
  local missing="" program
  for program in "$name" moonpool-master moonpool-node; do
    [ -x "$build/bin/$program" ] || missing="$missing $build/bin/$program"
  done
  if [ -n "$missing" ]; then
    echo "$name: no$missing; build them (make release, or make dev and name build/dev)" >&2
    exit 2
  fi
  folder=$(mktemp -d "$parent/moonpool-$name-XXXXXX") || exit 2
  trap 'rm -rf "$folder"' EXIT
  "$build/bin/$name" "$folder" "${@:4}" || status=$?
  exit $status
}
