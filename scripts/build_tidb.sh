#!/bin/sh
# Builds TiDB's server, and TiDB Lightning, below the cache directory, for the tests with TiDB as a target: `make tidb`,
# once per machine.
#
# TiDB is a Go module, so the Go module proxy is all that is needed: tests/tidb/go.mod pins the version, go.sum the
# content. The server has its store in its own process (`store = "unistore"`). Building takes five minutes of an idle
# machine and a gigabyte of downloads; the Go that is needed is fetched by the one that is installed.
#
# The result appears by one rename: a directory that exists is complete.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${DM_CACHE:-$root/.cache}
place=$cache/tidb
module=github.com/pingcap/tidb

say() { printf '%s\n' "build_tidb: $*" >&2; }

wanted=$(sed -n 's|^\tgithub.com/pingcap/tidb \(v[^ ]*\)$|\1|p' "$root/tests/tidb/go.mod")
if [ "$(cat "$place/VERSION" 2>/dev/null)" = "$wanted" ] && [ -x "$place/tidb-lightning" ]; then
    say "TiDB $wanted is in place"
    exit 0
fi
if ! command -v go >/dev/null 2>&1; then
    say "go is missing; any release from 1.21 on will do, it fetches the one that TiDB needs"
    exit 1
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/tidb.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/place"
say "building TiDB $wanted; this takes minutes"
# TiDB needs this release of Go: a newer one changes what one of its packages links to.
(cd "$root/tests/tidb" && GOTOOLCHAIN=go1.25.12 GOWORK=off \
    nice go build -mod=readonly -buildvcs=false -ldflags '-s -w' -o "$work/place/" \
    "$module/cmd/tidb-server" "$module/lightning/cmd/tidb-lightning")
if ! "$work/place/tidb-server" -V >"$work/banner"; then
    say "the server does not run"
    exit 1
fi
echo "$wanted" >"$work/place/VERSION"
rm -rf "$place"
mv -T "$work/place" "$place" 2>/dev/null || [ -r "$place/VERSION" ] # another build may have been faster
say "TiDB $wanted is in place"
