#!/bin/sh
# Puts files of a server's own test suite below the cache directory:
#   fetch_suite.sh NAME PATTERN [PACKAGE SUITE]     unpacks what matches the pattern into .cache/NAME
#
# It is MariaDB's, mariadb-test-data of the Debian that this machine's apt knows, or a package of another suite.
#
# Nothing is installed and no copy stands in this repository: tests read the files where they are. The result appears by
# one rename: a tree that exists is complete.
set -eu

cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
name=$1
pattern=$2
package=${3:-mariadb-test-data}
tree=$cache/$name

say() { printf '%s\n' "fetch_suite: $*" >&2; }

[ ! -d "$tree" ] || exit 0

mkdir -p "$cache"
work=$(mktemp -d "$cache/$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"

wanted() { echo "$package"; }
# shellcheck source=scripts/debian_packages.sh
. "$(dirname "$0")/debian_packages.sh"

if [ $# -gt 3 ]; then
    # shellcheck source=scripts/debian_suite.sh
    . "$(dirname "$0")/debian_suite.sh"
    debian_suite "$work" "$4"
fi
say "downloading $package for $name"
debian_packages "$work"
dpkg-deb --fsys-tarfile "$work"/*.deb | tar -x -C "$work/tree" --wildcards "$pattern"
chmod 755 "$work/tree"
mv -T "$work/tree" "$tree" 2>/dev/null || [ -d "$tree" ] # another installation may have been faster
say "$name is in place"
