#!/bin/sh
# Puts Debian's BIND below the cache directory, for the test of the DNS hook: a name server that takes updates, and the
# client programs. The packages are unpacked, not installed, so there is no service and no root is needed. What they link
# to and the machine lacks is unpacked, too; `bin` has a wrapper for each program that finds it.
#
# The result appears by one rename: a directory that exists is complete.
set -eu

cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
place=$cache/bind

say() { printf '%s\n' "fetch_bind: $*" >&2; }

if [ -r "$place/VERSION" ]; then
    say "BIND $(cat "$place/VERSION") is in place"
    exit 0
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/bind.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/bind" "$work/bind/bin"

wanted() {
    echo bind9 bind9-dnsutils
    apt-get -qq --no-install-recommends --simulate install bind9 bind9-dnsutils | awk '$1 == "Inst" {print $2}'
}
# shellcheck source=scripts/debian_packages.sh
. "$(dirname "$0")/debian_packages.sh"
debian_packages "$work/debs"

for each in "$work"/debs/*.deb; do dpkg -x "$each" "$work/bind/tree"; done
libraries=$(cd "$work/bind" && find tree/usr/lib -name '*.so*' -printf '$here/%h\n' | sort -u | paste -s -d :)
for each in sbin/named bin/nsupdate bin/dig; do
    cat >"$work/bind/bin/${each#*/}" <<WRAPPER
#!/bin/sh
here=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")
LD_LIBRARY_PATH=$libraries exec "\$here/tree/usr/$each" "\$@"
WRAPPER
done
chmod 755 "$work"/bind/bin/*
for each in named nsupdate; do
    if ! "$work/bind/bin/$each" -V >"$work/banner" 2>&1; then
        say "the unpacked program does not run: $(cat "$work/banner")"
        exit 1
    fi
done
dpkg-deb --field "$work"/debs/bind9_*.deb Version >"$work/bind/VERSION"
mv -T "$work/bind" "$place" 2>/dev/null || [ -r "$place/VERSION" ] # another installation may have been faster
say "BIND $(cat "$place/VERSION") is in place"
