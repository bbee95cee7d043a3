#!/bin/sh
# Puts another MariaDB than the system's below the cache directory, for `DM_MARIADB`: see scripts/fetch_server.sh.
exec "$(dirname "$0")/fetch_server.sh" mariadb 11.8 mariadbd mariadb-server-core mariadb-client-core mariadb-client
