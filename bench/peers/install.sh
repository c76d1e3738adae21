#!/bin/bash
# Installs what Moonpool is compared with: Mooncake's store from PyPI, in a virtual environment of its
# own with the libraries that it wants beside it, and Redis from Debian. Needs root for Redis only,
# and only where it is not installed.
#
#   bench/peers/install.sh              into $MOONPOOL_PEERS [~/.cache/moonpool/peers]
set -eu
peers=${MOONPOOL_PEERS:-$HOME/.cache/moonpool/peers}
mkdir -p "$peers/lib" "$peers/debs"
[ -x "$peers/mooncake/bin/python" ] || /usr/bin/python3 -m venv "$peers/mooncake"
"$peers/mooncake/bin/pip" install --quiet --disable-pip-version-check \
  mooncake-transfer-engine-non-cuda numpy
# The wheel wants the libraries of RDMA also where it only uses TCP. They are not installed, so that
# the rest of the system stays as it was.
cd "$peers/debs"
apt-get download -q libibverbs1 libnl-3-200 libnl-route-3-200 libnuma1 libcurl4 2>/dev/null
for package in *.deb; do dpkg -x "$package" "$peers/root"; done
find "$peers/root" -name '*.so*' -exec ln -sf -t "$peers/lib" {} +
if ! command -v redis-server >/dev/null; then
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends redis-server
fi
LD_LIBRARY_PATH=$peers/lib "$peers/mooncake/bin/python" -c 'import mooncake.store' &&
  echo "installed into $peers"
