#!/bin/bash
# LMCache with its second level in a pool: its own native_plugin loader and adapter pass the tests of
# tests/engines/lmcache_plugin_test.py, and what one process of `lmcache bench l2` stores, another
# one finds and loads. Bars: all chunks found and loaded by the other process; a round trip within
# one process compared byte by byte. Figures are the last line, as JSON.
#
#   tests/scenarios/lmcache_plugin.sh [--install] [BUILD_DIR]
#
# LMCache is looked for in $MOONPOOL_ENGINES/lmcache (default ~/.cache/moonpool/engines/lmcache);
# --install makes it there (tests/engines/install.sh). BUILD_DIR: default build/dev.
# Exit codes: 0 all bars hold, 1 they do not, 2 it cannot run here, 77 LMCache is not installed.
set -eu
cd "$(dirname "$0")/../.."
engines=${MOONPOOL_ENGINES:-$HOME/.cache/moonpool/engines}
python=$engines/lmcache/bin/python
if [ "${1:-}" = --install ]; then
  shift
  tests/engines/install.sh lmcache || exit 2
elif [ ! -x "$python" ]; then
  echo "lmcache_plugin: SKIPPED, no $python; --install makes it" >&2
  exit 77
fi
build=$(realpath -m "${1:-build/dev}")
missing=""
for file in bin/moonpool bin/moonpool-master bin/moonpool-node python/moonpool/lmcache/__init__.py; do
  [ -e "$build/$file" ] || missing="$missing $build/$file"
done
if [ -n "$missing" ]; then
  echo "lmcache_plugin: no$missing; build them (make dev)" >&2
  exit 2
fi

export MOONPOOL_ENGINES=$engines MOONPOOL_BUILD=$build MOONPOOL_BIN=$build/bin
export PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} LMCACHE_DISABLE_BANNER=1
"$python" tests/engines/lmcache_plugin_test.py || exit 1
exec "$python" tests/engines/lmcache_two_process.py
