#!/bin/sh
# Puts the scripts of the servers' suites below the cache directory: thousands of DDL statements for the long tests.
# MySQL's package is one of unstable, of 340 MB, of which the scripts are kept.
set -eu
here=$(dirname "$0")
"$here/fetch_suite.sh" statements '*.test'
exec "$here/fetch_suite.sh" statements-mysql '*.test' mysql-testsuite sid
