#!/usr/bin/env bash
# Installs the Debian packages that are missing of the named sections of tools/packages.txt.
# With nothing missing it does nothing: no network, no root.
#   tools/setup.sh [build|test|check ...]      default: build test
set -euo pipefail
cd "$(dirname "$0")/.."

sections=("$@")
[ ${#sections[@]} -gt 0 ] || sections=(build test)

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian system; install what tools/packages.txt names yourself" >&2
  exit 0
fi

# "package  why" lines of one section.
section() {
  awk -v want="[$1]" '/^\[/ {on = ($0 == want); next} on && NF && !/^#/' tools/packages.txt
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
list=""
for name in "${sections[@]}"; do
  lines=$(section "$name")
  if [ -z "$lines" ]; then
    echo "setup: no section [$name] in tools/packages.txt" >&2
    exit 2
  fi
  while read -r package why; do
    is_installed "$package" && continue
    missing+=("$package")
    list+=$(printf '  %-24s %s' "$package" "$why")$'\n'
  done <<<"$lines"
done
[ ${#missing[@]} -gt 0 ] || exit 0

printf 'setup: installing these Debian packages:\n%s' "$list"
as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: this needs root and there is no sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends "${missing[@]}"
