#!/bin/sh
# Puts binlog files of server versions that can't be run here below the cache directory, for the decoder's tests.
#
# They are test data of MariaDB's own suite, which Debian packages as mariadb-test-data: files that MySQL 5.1 to 8.0 and
# MariaDB 5.5 to 10.6 wrote. Nothing is installed; only the directories std_data are unpacked. The tests read them where
# they are, no copy stands in this repository. The result appears by one rename: a tree that exists is complete.
set -eu

cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
tree=$cache/captures

say() { printf '%s\n' "fetch_captures: $*" >&2; }

[ ! -d "$tree" ] || exit 0

mkdir -p "$cache"
work=$(mktemp -d "$cache/captures.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"

download() { (cd "$work" && apt-get -qq -o APT::Sandbox::User= download mariadb-test-data); }

say "downloading mariadb-test-data"
if ! download 2>"$work/why"; then
    if [ "$(id -u)" -ne 0 ]; then
        say "apt does not know the package; run apt-get update as root first: $(cat "$work/why")"
        exit 1
    fi
    apt-get -qq update
    download
fi
dpkg-deb --fsys-tarfile "$work"/*.deb | tar -x -C "$work/tree" --wildcards '*/std_data/*'
chmod 755 "$work/tree"
mv -T "$work/tree" "$tree" 2>/dev/null || [ -d "$tree" ] # another installation may have been faster
say "in place"
