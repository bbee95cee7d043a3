#!/bin/sh
# fetch_programs.sh PACKAGE PROGRAM...: puts programs of a Debian package below the cache directory, in a directory
# named after the first of them, for the tests that run them. The package is unpacked, not installed, so there is no
# service and no root is needed.
#
# The result appears by one rename: a directory that exists is complete.
set -eu

package=$1
shift
name=$1
cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
place=$cache/$name

say() { printf '%s\n' "fetch_programs: $*" >&2; }

complete() {
    [ -r "$place/VERSION" ] || return 1
    for each; do [ -x "$place/$each" ] || return 1; done
}

if complete "$@"; then
    say "$name $(cat "$place/VERSION") is in place"
    exit 0
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/tree" "$work/place"

wanted() { echo "$package"; }
# shellcheck source=scripts/debian_packages.sh
. "$(dirname "$0")/debian_packages.sh"
debian_packages "$work/debs"

dpkg -x "$work"/debs/*.deb "$work/tree"
for each; do mv "$work/tree/usr/bin/$each" "$work/place"; done
if ! "$work/place/$name" --version >"$work/banner" 2>&1; then
    say "the unpacked program does not run"
    exit 1
fi
dpkg-deb --field "$work"/debs/*.deb Version >"$work/place/VERSION"
complete "$@" || rm -rf "$place" # it lacks a program that is wanted now
mv -T "$work/place" "$place" 2>/dev/null || [ -r "$place/VERSION" ] # another installation may have been faster
say "$name $(cat "$place/VERSION") is in place"
