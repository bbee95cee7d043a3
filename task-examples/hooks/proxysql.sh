#!/bin/sh
# A hook of `dmctl cut-over` for applications that connect to ProxySQL. docs/cut-over.md says how to use it.
#
# Before the cut-over both servers are in the hostgroup of the writers: the source as ONLINE, the target as OFFLINE_HARD.
# The hook changes nothing but these two words, so each call can be repeated, and a return works in the same way. From
# `stop-writes` to `switch` no server is ONLINE, and ProxySQL lets the applications wait (mysql-connect_timeout_server_max).
set -eu

# Settings: copy this file, change them, and give the copy to --hook.
CLIENT=mariadb                # or mysql
ADMINS="/etc/dm/proxysql.cnf" # for each ProxySQL a file of the client: host, port, user and password of its admin port
HOSTGROUP=0
known() { # HOST PORT, as ProxySQL has them, of a server that dm knows as HOST:PORT
    case $1 in
        # db-7.example.com:3306) echo 10.0.0.7 3306 ;;
        \[*) host=${1%]:*} && echo "${host#[} ${1##*:}" ;;
        *) echo "${1%:*} ${1##*:}" ;;
    esac
}

ask() { # statements; to the ProxySQL of $admin
    "$CLIENT" --defaults-file="$admin" --connect-timeout=10 --batch --skip-column-names --execute="$1"
}
is() { # a condition for the servers HOST PORT ...
    condition=0
    while [ $# -gt 1 ]; do
        condition="$condition OR (hostname = '$1' AND port = $2)"
        shift 2
    done
    echo "hostgroup_id = $HOSTGROUP AND ($condition)"
}
fail() {
    echo "$admin: $1" >&2
    exit 1
}

target=$(is $(known "$DM_TARGET"))
sources=$(is $(for each in $DM_SOURCE_ADDRESSES; do known "$each"; done))

for admin in $ADMINS; do
    [ "$(ask "SELECT COUNT(*) FROM mysql_servers WHERE $target")" = 1 ] ||
        fail "mysql_servers lacks the target: $target"
    case $1 in
        stop-writes) from=OFFLINE_HARD to=OFFLINE_HARD ;;
        switch) from=OFFLINE_HARD to=ONLINE ;;
        start-writes) from=ONLINE to=OFFLINE_HARD ;;
    esac
    ask "UPDATE mysql_servers SET status = '$from' WHERE $sources;
         UPDATE mysql_servers SET status = '$to' WHERE $target;
         LOAD MYSQL SERVERS TO RUNTIME"
    # What ProxySQL does is what runtime_mysql_servers says.
    online="SELECT COUNT(*) FROM runtime_mysql_servers WHERE status = 'ONLINE' AND"
    [ $from = ONLINE ] || [ "$(ask "$online $sources")" = 0 ] || fail "a source is ONLINE"
    [ $to = ONLINE ] || [ "$(ask "$online $target")" = 0 ] || fail "the target is ONLINE"
    [ $to != ONLINE ] || [ "$(ask "$online $target")" = 1 ] || fail "the target is not ONLINE"
    [ "$1" = stop-writes ] || ask "SAVE MYSQL SERVERS TO DISK"
done
[ "$1" != stop-writes ] || exit 3 # left to dm, which sets the read-only mode: not all clients come by ProxySQL
