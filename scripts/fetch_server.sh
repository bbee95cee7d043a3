#!/bin/sh
# Puts a private database server below the cache directory; installs nothing on the system, needs no root:
#   fetch_server.sh NAME MAJOR DAEMON PACKAGE..     unpacks Debian's packages into .cache/NAME
#
# Debian stable has one MariaDB and no MySQL; unstable has newer ones of both, older suites older ones. An apt
# configuration of its own (one source: the mirror this machine already uses, suite sid or DM_DEBIAN_SUITE; own lists,
# own cache, an empty package status) resolves the packages and all libraries they need, and dpkg -x unpacks them into
# one tree. The server then runs through the tree's own dynamic loader with the tree's own libraries
# (dm/demo/servers.py), so the C library of the system does not matter.
#
# The result appears by one rename: a tree that exists is complete.
set -eu

cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
name=$1
major=$2 # the major version that the tests are written against
daemon=$3
shift 3
tree=$cache/$name

say() { printf '%s\n' "fetch_server: $*" >&2; }

if [ -r "$tree/VERSION" ]; then
    say "$name $(cat "$tree/VERSION") is in place"
    exit 0
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debs" "$work/tree"
# shellcheck source=scripts/debian_suite.sh
. "$(dirname "$0")/debian_suite.sh"
debian_suite "$work" "${DM_DEBIAN_SUITE:-sid}"

version=$(apt-cache show --no-all-versions "$1" | sed -n 's/^Version: \(.*:\)\{0,1\}//p')
[ -n "$version" ] || { say "this suite has no $1 at the moment"; exit 1; }
case $version in
    "$major".*) ;;
    *) say "NOTE: the suite now has $name $version; the tests were written for $major and may need work" ;;
esac

# With an empty status the solver lists everything down to libc. Libraries are what the server needs from that list.
packages=$(apt-get -qq --simulate install "$@" |
    awk -v own="^(lib|$name-)" '$1 == "Inst" && ($2 ~ own) { print $2 }')
say "downloading $name $version ($(echo "$packages" | wc -w) packages)"
# shellcheck disable=SC2086 # a list of package names
(cd "$work/debs" && apt-get -qq download $packages)

for package in "$work"/debs/*.deb; do
    dpkg -x "$package" "$work/tree"
done

# What only a person would read or a debugger would load.
rm -rf "$work/tree/usr/share/doc" "$work/tree/usr/share/man" "$work/tree/usr/share/locale" "$work/tree/usr/share/gdb"

# Found by looking, not by a fixed path: unstable merges and moves library directories.
loader=$(find "$work/tree" -name 'ld-linux*.so.*' | head -n 1)
server=$(find "$work/tree" -path "*bin/$daemon" | head -n 1)
libraries=$(find "$work/tree" -name 'lib*.so*' -path '*-linux-gnu/*' -printf '%h\n' | sort -u | grep -- '-linux-gnu$' |
    paste -s -d : -)
private=$(find "$work/tree" -type d -path '*mysql*/private' | head -n 1)
libraries=$libraries${private:+:$private}
if ! "$loader" --library-path "$libraries" "$server" --no-defaults --version >"$work/banner"; then
    say "the unpacked server does not run"
    exit 1
fi

relative() { printf '%s' "$1" | sed "s|$work/tree/||g"; }
{
    echo "loader=$(relative "$loader")"
    echo "mysqld=$(relative "$server")"
    echo "libraries=$(relative "$libraries")"
} >"$work/tree/LAYOUT"
echo "$version" >"$work/tree/VERSION"
mv -T "$work/tree" "$tree" 2>/dev/null || [ -r "$tree/VERSION" ] # another installation may have been faster
say "$name $version is in place: $(sed 's/.*Ver/Ver/' "$work/banner")"
