#!/bin/sh
# A hook of `dmctl cut-over` for applications that connect to a name: it makes the name point to the target, by a dynamic
# update (RFC 2136). docs/cut-over.md says how to use it.
#
# It moves the name at `switch` only. Until then dm's read-only mode stops the writes, and an abort has nothing to undo.
# All of the change is one message, which the name server applies whole or not at all. So each call can be repeated.
set -eu

# Settings: copy this file, change them, and give the copy to --hook.
SERVER=ns1.example.com      # the primary name server of the zone
PORT=53
ZONE=example.com
NAME=shop-db.example.com    # what the applications connect to
TTL=5                       # seconds for which they may still use the earlier answer
KEY=/etc/dm/shop-db.key     # for TSIG, as `tsig-keygen shop-db` prints it; readable for dm's user only
value() { # the address or the name that applications use for a server that dm knows as HOST:PORT
    case $1 in
        # 10.0.0.7:3306) echo db-7.example.com ;;
        \[*) host=${1%]:*} && echo "${host#[}" ;;
        *) echo "${1%:*}" ;;
    esac
}

[ "$1" = switch ] || exit 3 # left to dm

value=$(value "$DM_TARGET")
case $value in
    *:*) type=AAAA ;;
    *[!0-9.]*) type=CNAME value=${value%.}. ;;
    *) type=A ;;
esac
nsupdate -k "$KEY" -t 10 <<UPDATE
server $SERVER $PORT
zone $ZONE
update delete $NAME. A
update delete $NAME. AAAA
update delete $NAME. CNAME
update add $NAME. $TTL $type $value
send
UPDATE
found=$(dig +short +time=5 +tries=2 -p "$PORT" "@$SERVER" "$NAME." "$type")
if [ "$found" != "$value" ]; then
    echo "$SERVER says that $NAME is ${found:-nothing}, not $value" >&2
    exit 1
fi
