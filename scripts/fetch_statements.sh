#!/bin/sh
# Puts the scripts of MariaDB's suite below the cache directory: thousands of DDL statements for the long test of DDL.
exec "$(dirname "$0")/fetch_suite.sh" statements '*.test'
