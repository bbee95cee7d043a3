#!/bin/sh
# Puts MySQL below the cache directory: Debian stable has none. See scripts/fetch_server.sh.
exec "$(dirname "$0")/fetch_server.sh" mysql 9.7 mysqld mysql-server-core mysql-client-core
