"""Servers whose global variables are contrary to what dm needs, and the verbs that are called on them.

`test_contrary_globals` follows a source, `test_contrary_moves` moves applications. Each verb of `dm.verbs` has its
place in one of the two, or asks no server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.verbs.every import VERBS
from tests.testbed.daemon import Answer, Daemon

WITHOUT_SERVERS: Final = frozenset(
    {"encrypt", "completion", "logs", "timeline", "shutdown", "demo", "token create", "token list", "token revoke"}
    | {"list-member", "transfer-source", "offline-member"}
    | {f"cluster {what}" for what in ("init", "import", "export")}
    | {f"config {what}" for what in ("show", "task", "source", "worker", "export", "import")}
)
"""They ask no server of a task; `demo` has servers of its own, `config import` calls verbs that have their place."""
MOVING: Final = frozenset({"objects", "cut-over", "show-conflicts", "clear-conflicts"})
FOLLOWING: Final = frozenset(
    {"operate-source create", "operate-source update", "operate-source show", "operate-source stop"}
    | {"start-relay", "pause-relay", "resume-relay", "purge-relay", "stop-relay"}
    | {"check-task", "start-task", "query-status", "wait", "pause-task", "resume-task", "stop-task", "update-task"}
    | {f"validation {what}" for what in ("start", "status", "update", "stop", "show-error")}
    | {f"validation {what}-error" for what in ("ignore", "resolve", "clear")}
    | {f"binlog {what}" for what in ("skip", "replace", "inject", "revert", "list")}
    | {f"binlog-schema {what}" for what in ("list", "update", "delete")}
    | {
        "diff",
        "flashback",
        "replay",
        "heal",
        "reload-table",
        "forgotten list",
        "forgotten remove",
        "pace",
        "support-bundle",
    }
    | {"shard-ddl-lock list", "shard-ddl-lock unlock"}
    | {f"table {what}" for what in ("list", "hold", "release", "drop")}
)

_NAMES: Final = frozenset(verb.name for verb in VERBS)


class Recorded(Daemon):
    """A daemon that knows which verbs it was asked for."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.called = set[str]()

    def said(self, *arguments: str) -> Answer:
        """Run `dmctl` in this process."""
        two = " ".join(arguments[:2])
        self.called.add(two if two in _NAMES else arguments[0])
        return super().said(*arguments)

    def must(self, *arguments: str) -> Answer:
        """The same, and insist on success."""
        answer = self.said(*arguments)
        assert answer.status == 0, str(answer)
        return answer

    def synced(self, task: str) -> None:
        """Wait until it has applied everything."""
        self.must("wait", task, "--synced", "--timeout", "110")


Globals = Mapping[str, object]

QUOTES = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE,NO_ZERO_IN_DATE"
EVERYWHERE: Globals = {
    "sql_mode": f"{QUOTES},STRICT_TRANS_TABLES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE",
    "time_zone": "-07:30",
    "sql_select_limit": 1,
    "autocommit": 0,
    "completion_type": 2,
    "div_precision_increment": 0,
    "default_week_format": 3,
    "group_concat_max_len": 4,
    "lock_wait_timeout": 1,
    "wait_timeout": 20,
    "foreign_key_checks": 0,
}
OF_SERVERS: Globals = {
    **{f"character_set_{part}": "latin1" for part in ("client", "connection", "results", "server")},
    "collation_connection": "latin1_german2_ci",
    "collation_server": "latin1_german2_ci",
    "sql_quote_show_create": 0,
    "sql_big_selects": 0,
    "max_join_size": 1,
    "sql_safe_updates": 1,
    "sql_auto_is_null": 1,
    "sql_notes": 0,
    "sql_warnings": 1,
    "sql_buffer_result": 1,
    "unique_checks": 0,
    "max_sort_length": 8,
    "max_error_count": 0,
    "net_read_timeout": 5,
    "net_write_timeout": 5,
    "lc_time_names": "de_DE",
    "lc_messages": "de_DE",
    "innodb_strict_mode": 0,
    "innodb_lock_wait_timeout": 2,
    "low_priority_updates": 1,
    "explicit_defaults_for_timestamp": 0,
}
OF_MYSQL: Globals = {
    **OF_SERVERS,
    "transaction_read_only": 1,
    "transaction_isolation": "READ-UNCOMMITTED",
    "max_execution_time": 1,
    "show_create_table_verbosity": 1,
    "show_gipk_in_create_table_and_information_schema": 0,
    "block_encryption_mode": "aes-256-cbc",
    "default_collation_for_utf8mb4": "utf8mb4_general_ci",
    "old_alter_table": 1,
    "information_schema_stats_expiry": 0,
}
OF_MARIADB: Globals = {
    **OF_SERVERS,
    "tx_read_only": 1,
    "tx_isolation": "READ-UNCOMMITTED",
    "max_statement_time": 0.001,
    "idle_transaction_timeout": 1,
    "idle_readonly_transaction_timeout": 1,
    "idle_write_transaction_timeout": 1,
    "sql_if_exists": 1,
    "system_versioning_asof": "2001-01-01 00:00:00",
    "old_mode": "NO_PROGRESS_INFO,ZERO_DATE_TIME_CAST",
    "check_constraint_checks": 0,
    "alter_algorithm": "INSTANT",
    "default_regex_flags": "DOTALL,EXTENDED",
}
OF_A_TARGET: Globals = {"default_storage_engine": "MyISAM"}
NOT_OF_TIDB: Final = {
    **dict.fromkeys(("lc_time_names", "explicit_defaults_for_timestamp"), 1238),  # read-only: always as dm needs it
    **dict.fromkeys(("show_create_table_verbosity", "show_gipk_in_create_table_and_information_schema"), 1193),
}
"""What a TiDB takes no other value of or does not know, with the error. All others it takes; what it heeds of them
differs by version."""
OF_TIDB: Globals = {
    "tidb_enable_noop_functions": "ON",  # else it refuses transaction_read_only and sql_auto_is_null
    "tidb_skip_isolation_level_check": 1,
    **{name: value for name, value in OF_MYSQL.items() if name not in NOT_OF_TIDB},
    # What it calls latin1 is UTF-8 to its sessions; this one it converts.
    **{f"character_set_{part}": "gbk" for part in ("client", "connection", "results", "server", "database")},
    "character_set_filesystem": "latin1",
    **{f"collation_{part}": "gbk_chinese_ci" for part in ("connection", "server", "database")},
    "default_collation_for_utf8mb4": "utf8mb4_0900_ai_ci",
    "tidb_txn_mode": "optimistic",
    "tidb_replica_read": "follower",
    "tidb_low_resolution_tso": "ON",
    "tidb_guarantee_linearizability": "OFF",
    "tidb_enable_external_ts_read": "ON",
    "tidb_rc_read_check_ts": "ON",
    "tidb_rc_write_check_ts": "ON",
    "tidb_constraint_check_in_place": "ON",
    "tidb_skip_utf8_check": "ON",
    "tidb_skip_ascii_check": "ON",
    "tidb_enable_strict_double_type_check": "OFF",
    "tidb_enable_clustered_index": "OFF",
    "tidb_redact_log": "ON",
    "tidb_max_chunk_size": 32,
    "big_tables": 1,
    "default_tmp_storage_engine": "MyISAM",
}


WITHOUT_LIMIT = {"mysql": "SET SESSION max_execution_time = 0", "mariadb": "SET SESSION max_statement_time = 0"}


@contextmanager
def contrary(server: PrivateServer, values: Globals) -> Iterator[None]:
    """The server with these global values; what it had is put back."""
    with closing(server.connect()) as session, session.cursor() as cursor:
        cursor.execute(WITHOUT_LIMIT[server.flavor])
        if server.tidb:
            cursor.execute("SET SESSION tidb_skip_isolation_level_check = 1")  # for READ UNCOMMITTED, which it ignores
            cursor.execute("BEGIN")
            cursor.execute("SELECT @@tidb_current_ts")
            now = cursor.fetchall()[0][0]
            cursor.execute("ROLLBACK")
            cursor.execute(f"SET GLOBAL tidb_external_ts = {now}")  # sessions are to read what there was then
        before: dict[str, object] = {}
        for name in values:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            before[name] = cursor.fetchall()[0][0]
        try:
            for name, value in values.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))
            yield
        finally:
            cursor.execute("SET SESSION wait_timeout = 1000")
            for name, value in reversed(before.items()):  # one may allow the next
                unset = name == "system_versioning_asof"
                cursor.execute(f"SET GLOBAL {name} = {'DEFAULT' if unset else '%s'}", () if unset else (value,))


def application(server: ThrowawayServer) -> Connection[Cursor]:
    """A session of the source's users, which has all that the server begins one with, but that it writes."""
    session = server.connect()
    with session.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION READ WRITE")
        # A MySQL's status says that it is on, whatever the global variable says, and the driver believes it.
        cursor.execute("SET SESSION autocommit = 1")
        if server.flavor == "mariadb":
            cursor.execute("SET SESSION alter_algorithm = 'DEFAULT'")
        cursor.execute(WITHOUT_LIMIT[server.flavor])
    return session


def write(server: ThrowawayServer, *statements: str) -> None:
    with closing(application(server)) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
