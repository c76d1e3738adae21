#!/bin/bash
# LMCache with its second level in a pool: its own native_plugin loader and adapter pass the tests of
# tests/engines/lmcache_plugin_test.py, and what one process of `lmcache bench l2` stores, another
# one finds and loads. Bars: all chunks found and loaded by the other process; a round trip within
# one process compared byte by byte. Figures are the last line, as JSON.
#
#   tests/scenarios/lmcache_plugin.sh [--install] [BUILD_DIR]
#
# LMCache is looked for in $MOONPOOL_ENGINES/lmcache (default ~/.cache/moonpool/engines/lmcache);
# --install makes it there (tests/engines/install.sh).
# Exit codes: 0 all bars hold, 1 they do not, 2 it cannot run here, 77 LMCache is not installed.
set -eu
. "$(dirname "$0")/run.sh" "$@"
install_engines lmcache
is_there lmcache || exit 77
need $python_package

export MOONPOOL_ENGINES=$engines LMCACHE_DISABLE_BANNER=1
"$python" tests/engines/lmcache_plugin_test.py || exit 1
exec "$python" tests/engines/lmcache_two_process.py
