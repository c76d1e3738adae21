#!/usr/bin/env bash
# A pool of three nodes on this machine: a file through it, chat traffic through it, and what it says
# of itself, down to why one block is gone.
# Exit status: that of the replay, which compares every byte it reads.
set -euo pipefail
cd "$(dirname "$0")/.."

moonpool=${MOONPOOL:-build/release/bin/moonpool}
nodes=3
dram=128MiB
ready_seconds=30

scratch=$(mktemp -d)
pool=
stop_pool() {
  if [ -n "$pool" ] && kill -INT "$pool" 2>/dev/null; then
    wait "$pool" || true
  fi
  rm -rf "$scratch"
}
trap stop_pool EXIT

step() { printf '\n$ %s\n' "moonpool $*"; }

step dev --nodes $nodes --dram $dram
: >"$scratch/out"
"$moonpool" dev --nodes $nodes --dram $dram >"$scratch/out" 2>"$scratch/log" &
pool=$!

master=
deadline=$((SECONDS + ready_seconds))
until master=$(sed -n 's/^ready: --master \([^ ]*\).*/\1/p' "$scratch/out") && [ -n "$master" ]; do
  if ! kill -0 "$pool" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
    echo "demo: the pool did not become ready; its log:" >&2
    tail -n 20 "$scratch/log" >&2
    exit 1
  fi
  sleep 0.1
done
cat "$scratch/out"

ask() {
  step "$@"
  "$moonpool" --master "$master" "$@"
}

# The first block of the replay that was evicted.
evicted_key() {
  "$moonpool" --master "$master" exists $(seq -f 'demo/%.0f' 1 500) | awk '$2 == "evicted" { print $1; exit }'
}

ask put readme README.md
ask why readme
ask get readme -o "$scratch/readme"
cmp README.md "$scratch/readme" && echo "the same, byte for byte"

result=0
ask replay --generate chat --requests 6000 --key-prefix demo/ || result=$?
ask status
ask nodes
evicted=$(evicted_key || true)
if [ -n "$evicted" ]; then ask why "$evicted"; fi

printf '\n$ kill -INT %s    # the same as Ctrl-C\n' "$pool"
kill -INT "$pool"
wait "$pool" || true
pool=
if [ $result -eq 0 ]; then
  echo "demo: done in $SECONDS s; every byte read was the byte stored"
else
  echo "demo: the replay failed" >&2
fi
exit $result
