# shellcheck shell=bash
# Sourced by the scripts of this folder with their arguments, from the root of the tree: what is
# built, which engines there are, and the convention of the exit codes: 0 all bars hold, 1 they do
# not, 2 it cannot run here, 77 an engine is not installed. Figures are the last line, as JSON.
name=$(basename "$0" .sh)
args=("$@")
engines=${MOONPOOL_ENGINES:-$HOME/.cache/moonpool/engines}
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2

# need FILE...: sets `build`, absolute, to BUILD_DIR, which is the first argument where that is
# neither a number nor an option; without one it is build/release where that was built, else
# build/dev. The files must be there. Python finds the package and the programs of that build.
need() {
  local file missing=""
  case ${args[0]:-} in
    "" | -* | [0-9]*)
      build=build/release
      [ -d build/release/bin ] || [ ! -d build/dev/bin ] || build=build/dev
      ;;
    *)
      build=${args[0]}
      args=("${args[@]:1}")
      ;;
  esac
  build=$(realpath -m "$build")
  for file in "$@"; do
    [ -e "$build/$file" ] || missing="$missing $build/$file"
  done
  if [ -n "$missing" ]; then
    echo "$name: no$missing; build them (make release, or make dev and name build/dev)" >&2
    exit 2
  fi
  export MOONPOOL_BUILD=$build MOONPOOL_BIN=$build/bin PYTHONDONTWRITEBYTECODE=1
  export PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH}
}

# What needs the package for Python and a pool.
python_package="bin/moonpool bin/moonpool-master bin/moonpool-node python/moonpool/__init__.py"

# install_engines ENGINE...: makes them where the first argument is --install. Before `need`.
install_engines() {
  [ "${args[0]:-}" = --install ] || return 0
  args=("${args[@]:1}")
  tests/engines/install.sh "$@" || exit 2
}

# is_there ENGINE: sets `python` to its own; says so where it is not installed.
is_there() {
  python=$engines/$1/bin/python
  [ -x "$python" ] && return 0
  echo "$name: SKIPPED, no $python; --install makes it" >&2
  return 1
}

# run PROGRAM PARENT: a scenario in C++, with a folder of its own under PARENT, which goes with it.
run() {
  local folder
  need "bin/$1" bin/moonpool-master bin/moonpool-node
  folder=$(mktemp -d "$2/moonpool-$1-XXXXXX") || exit 2
  trap 'rm -rf "$folder"' EXIT
  "$build/bin/$1" "$folder" "${args[@]}"
}
