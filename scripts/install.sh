#!/bin/sh
# Puts everything in place that dm, its demo and its tests need; does nothing where it is in place already.
#
#   Debian packages   MariaDB's server and client programs (no service is started), Python's venv module, systemd-analyze
#   .venv             the locked Python packages and dm itself, editable
#   dm/accelerator    the C extension, where a compiler and the headers of this Python can be had; dm runs without it too
#   .cache/mysql      MySQL, by scripts/fetch_mysql.sh
#   .cache/captures   binlog files of older servers, by scripts/fetch_captures.sh
#   .cache/prometheus Prometheus, which scrapes dm in a test, by scripts/fetch_prometheus.sh
#   .cache/bind       BIND, whose zone a hook of a cut-over changes in a test, by scripts/fetch_bind.sh
#   .cache/etcd       etcd, which several hosts share in tests, by scripts/fetch_etcd.sh
#
# Further programs and their Debian packages are arguments: scripts/install.sh /usr/bin/mydumper:mydumper
#
# Needs root only where a Debian package is missing. Settings: PYTHON (an interpreter of 3.11 or newer), DM_CACHE (instead
# of .cache), DM_DEBIAN_MIRROR (instead of the mirror that apt is configured with).
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "install: $*" >&2; }

python=${PYTHON:-python3}
missing=
for program in /usr/sbin/mariadbd:mariadb-server-core /usr/bin/mariadb-install-db:mariadb-server-core \
    /usr/bin/mariadb-binlog:mariadb-client /usr/bin/mariadb-dump:mariadb-client /usr/bin/systemd-analyze:systemd "$@"; do
    [ -x "${program%%:*}" ] || missing="$missing ${program#*:}"
done
if ! command -v "$python" >/dev/null 2>&1; then
    missing="$missing python3 python3-venv"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    missing="$missing python3-venv"
fi
[ -r /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"

install_packages() {
    say "installing Debian packages: $*"
    # The -core packages bring no service; should a dependency bring one, it must not start on its own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "$@" >/dev/null
}

if [ -n "$missing" ]; then
    missing=$(printf '%s\n' $missing | sort -u | paste -s -d ' ' -)
    if [ "$(id -u)" -ne 0 ]; then
        say "these Debian packages are missing and this is not root; run: apt-get install $missing"
        exit 1
    fi
    # shellcheck disable=SC2086 # a list of package names
    install_packages $missing
fi

# What the extension is built with is only wished for: dm runs without it. Another Python than Debian's has its headers
# with it, or nowhere.
wished=
command -v cc >/dev/null 2>&1 || wished="gcc libc6-dev"
headers="import os, sys, sysconfig as s; os.path.exists(s.get_paths()['include'] + '/Python.h') or print(sys.base_prefix)"
[ "$("$python" -c "$headers")" != /usr ] || wished="$wished python3-dev"
if [ -n "$wished" ]; then
    # shellcheck disable=SC2086 # a list of package names
    if [ "$(id -u)" -ne 0 ] || ! install_packages $wished; then
        say "the compiled accelerator needs Debian packages that are missing: $wished"
    fi
fi

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "$("$python" --version) is too old, dm needs 3.11; set PYTHON to a newer interpreter"
    exit 1
fi

wanted=$(cat requirements.lock pyproject.toml | sha256sum)
if [ "$(cat .venv/installed 2>/dev/null)" = "$wanted" ]; then
    say "the Python packages are in place"
else
    say "installing the Python packages into .venv"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    pip=".venv/bin/python -m pip --quiet --disable-pip-version-check"
    $pip install --require-hashes --requirement requirements.lock
    $pip install --no-deps --no-build-isolation --editable .
    printf '%s' "$wanted" >.venv/installed
fi

# It says itself why not, where it is not built.
.venv/bin/python -m dm.accelerator.build || true
.venv/bin/python -m dm.spark.build_class_archive || true

scripts/fetch_mysql.sh
scripts/fetch_captures.sh
scripts/fetch_programs.sh prometheus prometheus promtool
scripts/fetch_bind.sh
scripts/fetch_programs.sh etcd-server etcd
