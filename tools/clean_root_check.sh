#!/usr/bin/env bash
# Proves the README on a machine that has nothing: a minimal Debian 12 in a folder, this tree cloned
# into it, the prerequisites the README names, then its commands. Needs root, and debootstrap
# (apt-get install debootstrap). Only committed files take part.
#   tools/clean_root_check.sh [--root DIR] [--keep] [command ...]   default: "make demo" "make test"
# --root reuses the packages of an earlier --keep run; without it the folder is a fresh one in /tmp.
set -euo pipefail
source_tree=$(cd "$(dirname "$0")/.." && pwd)

root=
keep=no
while [ $# -gt 0 ]; do
  case "$1" in
    --root) root=$2; shift 2 ;;
    --keep) keep=yes; shift ;;
    *) break ;;
  esac
done
commands=("$@")
[ ${#commands[@]} -gt 0 ] || commands=("make demo" "make test")

[ "$(id -u)" = 0 ] || { echo "clean_root_check: needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "clean_root_check: needs debootstrap" >&2; exit 1; }
[ -n "$root" ] || root=$(mktemp -d /tmp/moonpool_clean_root_XXXXXX)

# The mounts go first and the folder only once they are gone: rm must not reach through one.
clean_up() {
  for mount in dev/shm dev proc; do
    if mountpoint -q "$root/$mount"; then umount "$root/$mount"; fi
  done
  if [ $keep = no ]; then rm -rf --one-file-system "$root"; fi
}
trap clean_up EXIT

# Where this machine gets Debian from; read now and never written down in the tree.
sources=$(apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
  grep bookworm | sort -u)
mirror=$(awk '$3 == "bookworm" {print $2; exit}' <<<"$sources")

if [ ! -x "$root/usr/bin/apt-get" ]; then
  echo "clean_root_check: minimal Debian 12 into $root"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" >"$root.log" ||
    { tail -n 20 "$root.log" >&2; exit 1; }
fi
rm -f "$root.log"
echo "$sources" >"$root/etc/apt/sources.list"
cp /etc/resolv.conf /etc/hosts "$root/etc/"

mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null:3 zero:5 full:7 random:8 urandom:9; do
  mknod -m 666 "$root/dev/${node%:*}" c 1 "${node#*:}"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"

inside() {
  chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 bash -euc "$1"
}

inside 'apt-get update -q && apt-get install -y -q --no-install-recommends git make' >/dev/null
rm -rf "$root/root/moonpool"
git clone -q --no-hardlinks "$source_tree" "$root/root/moonpool"

for command in "${commands[@]}"; do
  echo "clean_root_check: $command"
  begin=$SECONDS
  inside "cd /root/moonpool && $command"
  echo "clean_root_check: '$command' passed in $((SECONDS - begin)) s"
done
