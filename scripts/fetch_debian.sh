#!/bin/sh
# Puts a bare Debian 12 below the cache directory, with what docs/service.md has a host install: Python and a JRE; and
# systemd. A test installs dm there as a new user does. Needs root and debootstrap, since it makes a root directory.
set -eu
cd "$(dirname "$0")/.."
root=${DM_CACHE:-$PWD/.cache}/debian
[ -e "$root/complete" ] && { echo "fetch_debian: Debian is in place" >&2; exit 0; }
rm -rf "$root"
mkdir -p "$root"
debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates,python3-venv bookworm "$root/root" \
    "${DM_DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$root/log" 2>&1 || { tail "$root/log" >&2; exit 1; }
# Java's package runs Java, which looks at /proc.
unshare --mount --pid --fork --kill-child /bin/sh -c '
    mount -t proc proc "$1/proc"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$1" /bin/sh -c \
        "apt-get -qq install --no-install-recommends default-jre-headless && apt-get clean"
' sh "$root/root" >>"$root/log" 2>&1 || { tail "$root/log" >&2; exit 1; }
touch "$root/complete"
