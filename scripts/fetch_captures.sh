#!/bin/sh
# Puts binlog files of server versions that can't be run here below the cache directory, for the decoder's tests: test
# data of MariaDB's suite, which MySQL 5.1 to 8.0 and MariaDB 5.5 to 10.6 wrote.
exec "$(dirname "$0")/fetch_suite.sh" captures '*/std_data/*'
