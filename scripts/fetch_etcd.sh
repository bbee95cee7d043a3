#!/bin/sh
# Puts Debian's etcd below the cache directory, for the tests of several hosts: the
# package is unpacked, not installed, so there is no service and no root is needed.
#
# The result appears by one rename: a directory that exists is complete.
set -eu

cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
place=$cache/etcd

say() { printf '%s\n' "fetch_etcd: $*" >&2; }

if [ -r "$place/VERSION" ] && [ -x "$place/etcd" ]; then
    say "etcd $(cat "$place/VERSION") is in place"
    exit 0
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/etcd.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/tree" "$work/place"

# Fails where the package lists are missing or older than the archive.
download() { (cd "$work/debs" && apt-get -qq --option APT::Sandbox::User= download etcd-server); }
if ! download 2>/dev/null; then
    if [ "$(id -u)" -ne 0 ]; then
        say "apt finds no package etcd-server and this is not root; run: apt-get update"
        exit 1
    fi
    say "reading the package lists"
    apt-get -qq update
    download
fi

dpkg -x "$work"/debs/*.deb "$work/tree"
mv "$work/tree/usr/bin/etcd" "$work/place"
if ! "$work/place/etcd" --version >"$work/banner" 2>&1; then
    say "the unpacked program does not run"
    exit 1
fi
dpkg-deb --field "$work"/debs/*.deb Version >"$work/place/VERSION"
mv -T "$work/place" "$place" 2>/dev/null || [ -r "$place/VERSION" ] # another installation may have been faster
say "etcd $(cat "$place/VERSION") is in place"
