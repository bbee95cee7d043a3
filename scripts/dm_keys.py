"""Every key of DM's task and source files, with the values that its documentation and its own output give them.

The first value of a key is its default, as `dmctl config` of DM prints it. Facts of DM's documentation (task and source
configuration files, v1.0 to v8.5) and of tiflow's dm/config; the files that are made of them are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Values = Sequence[Any]

UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NO_LIMIT: Final = 2147483647

FILTER: Final[Mapping[str, Values]] = {
    "schema-pattern": ["shop", "shop_*", "s?op", "shop_[0-9]", "*"],
    "table-pattern": ["", "t_*"],
    "events": [
        ["all"], [], ["all dml"], ["all ddl"], ["none"], ["none ddl"], ["none dml"], ["incompatible ddl changes"],
        ["insert", "update", "delete"], ["create schema", "drop schema"], ["truncate table", "drop table"],
        ["truncate"],
    ],
    "sql-pattern": [[], ["^DROP\\s+PROCEDURE", "alter table .* add column aaa int"]],
    "action": ["Ignore", "Do"],
}  # fmt: skip

SECURITY: Final[Mapping[str, Values]] = {
    "ssl-ca": ["", "{certificate}"],
    "ssl-cert": [""],
    "ssl-key": [""],
    "cert-allowed-cn": [[]],
    "ssl-ca-bytes": [[], "{bytes}"],
    "ssl-cert-bytes": [[]],
    "ssl-key-bytes": [[]],
    "ssl-ca-base64": ["", "{base64}"],
    "ssl-cert-base64": [""],
    "ssl-key-base64": [""],
}

ENDPOINT: Final[Mapping[str, Values]] = {
    "host": ["127.0.0.1", "db.example", "::1"],
    "port": [3306, 4000],
    "user": ["root", ""],
    "password": ["", "123456", "/Q7B9DizNLLTTfiZHv9WoEAKamfpIUs="],
    "max-allowed-packet": [None, 67108864],
    "session": [{}, {"sql_mode": "ANSI_QUOTES,NO_ZERO_IN_DATE", "tidb_txn_mode": "optimistic", "time_zone": "+08:00"}],
    "security": [None, {}],
}

SOURCE: Final[Mapping[str, Values]] = {
    "enable": [True, False],
    "enable-gtid": [False, True],
    "auto-fix-gtid": [False, True],
    "relay-dir": ["relay-dir", "", "./relay_log"],
    "meta-dir": ["", "./meta"],
    "flavor": ["", "mysql", "mariadb"],
    "charset": ["", "utf8mb4"],
    "enable-relay": [False, True],
    "relay-binlog-name": ["", "mysql-bin.000001"],
    "relay-binlog-gtid": ["", f"{UUID}:1-9", "0-1-100", f"{UUID}:0"],
    "source-id": ["mysql-replica-01"],
    "server-id": [0, 123456],
    "tracer": [{}, {"enable": False, "source-id": "x", "batch-size": 20}],
    "case-sensitive": [False, True],
    "filters": [[]],
}
PURGE: Final[Mapping[str, Values]] = {"interval": [3600, 0], "expires": [0, 24], "remain-space": [15, 0]}
CHECKER: Final[Mapping[str, Values]] = {
    "check-enable": [True, False],
    "backoff-rollback": ["5m0s", "5m"],
    "backoff-max": ["5m0s", "60s"],
    "check-interval": ["5s"],
    "backoff-min": ["1s"],
    "backoff-jitter": [True, False],
    "backoff-factor": [2],
}

TASK: Final[Mapping[str, Values]] = {
    "name": ["test"],
    "task-mode": ["all", "full", "incremental", "dump", "load", "load&sync"],
    "is-sharding": [False, True],
    "shard-mode": ["", "pessimistic", "optimistic"],
    "strict-optimistic-shard-mode": [False],
    "ignore-checking-items": [
        [], ["all"], ["dump_privilege", "replication_privilege", "version", "server_id", "binlog_enable"],
        ["binlog_format", "binlog_row_image", "table_schema", "schema_of_shard_tables", "auto_increment_ID"],
        ["online_ddl", "empty_region", "region_distribution", "downstream_version", "free_space", "conn_number"],
        ["meta_position", "binlog_db", "target_privilege", "downstream_mutex_features", "downstream_table_empty"],
    ],
    "meta-schema": ["dm_meta", ""],
    "enable-heartbeat": [False, True],
    "heartbeat-update-interval": [1, 2],
    "heartbeat-report-interval": [10, 1],
    "timezone": ["", "Asia/Shanghai", "+08:00", "UTC"],
    "case-sensitive": [False, True],
    "collation_compatible": ["loose", "strict", ""],
    "mariadb2tidb": [{"mode": "auto", "enabled-rules": [], "disabled-rules": [], "strict-mode": True}, {"mode": "on"}],
    "online-ddl": [True, False],
    "shadow-table-rules": [[], ["^_(.+)_(?:new|gho)$"]],
    "trash-table-rules": [[], ["^_(.+)_(?:ghc|del|old)$"]],
    "online-ddl-scheme": ["", "gh-ost", "pt"],
    "routes": [{}],
    "filters": [{}],
    "column-mappings": [{}],
    "expression-filter": [{}],
    "black-white-list": [{}, {"list": {"do-dbs": ["shop"]}}],
    "block-allow-list": [{}],
    "mydumpers": [{}],
    "loaders": [{}],
    "syncers": [{}],
    "validators": [{}],
    "clean-dump-file": [True, False],
    "ansi-quotes": [False, True],
    "remove-meta": [False, True],
    "tidb": [{"backend": "tidb"}],
    "experimental": [{"async-checkpoint-flush": False}, {"async-checkpoint-flush": True}],
}  # fmt: skip

INSTANCE: Final[Mapping[str, Values]] = {
    "source-id": ["mysql-replica-01"],
    "meta": [
        None,
        {"binlog-name": "mysql-bin.000001", "binlog-pos": 4, "binlog-gtid": ""},
        {"binlog-name": "mysql-bin.000001", "binlog-pos": 0, "binlog-gtid": f"{UUID}:0"},
        {"binlog-name": "", "binlog-pos": 0, "binlog-gtid": ""},
    ],
    "filter-rules": [[]],
    "column-mapping-rules": [[]],
    "route-rules": [[]],
    "expression-filters": [[]],
    "black-white-list": [""],
    "block-allow-list": [""],
    "mydumper-config-name": [""],
    "mydumper": [None],
    "mydumper-thread": [0, 4],
    "loader-config-name": [""],
    "loader": [None],
    "loader-thread": [0, 16],
    "syncer-config-name": [""],
    "syncer": [None],
    "syncer-thread": [0, 16],
    "validator-config-name": [""],
    "continuous-validator-config-name": [""],
}

MYDUMPER: Final[Mapping[str, Values]] = {
    "mydumper-path": ["./bin/mydumper", "bin/mydumper"],
    "threads": [4, 0],
    "chunk-filesize": ["64", "", "0", 0, 64, "64M", "128MiB"],
    "statement-size": [0, 1000000],
    "rows": [0, 200000],
    "where": ["", "id > 10"],
    "skip-tz-utc": [True, False],
    "extra-args": [
        "", "--consistency none", "--consistency auto", "--consistency flush", "--consistency lock", "--no-locks",
        "--statement-size=100", "-t 16 -r 64", "--no-views --escape-backslash", "--tidb-mem-quota-query 1",
        "-B test", "-T test.t1,test.t2", "-f test.* -f !test.log", "-f test*.* -f '!/^test[0-9]+$/./_(old|new)$/'",
        "-f `test`.\"t1\"",
    ],
}  # fmt: skip

LOADER: Final[Mapping[str, Values]] = {
    "pool-size": [16, 0],
    "dir": [
        "./dumped_data",
        "",
        "s3://bucket/dump",
        "s3://bucket/dump?region=us-west-2&endpoint=http://127.0.0.1:9000&access_key=a&secret_access_key=b"
        "&force_path_style=true",
    ],
    "sorting-dir": ["./dumped_data.test.sorting", ""],
    "sorting-dir-physical": ["./dumped_data.test.sorting", "./sorting.test", ""],
    "import-mode": ["logical", "", "sql", "loader", "physical", "import-into"],
    "on-duplicate": ["", "replace", "ignore", "error"],
    "on-duplicate-logical": ["replace", "", "ignore", "error"],
    "on-duplicate-physical": ["none", "", "manual"],
    "disk-quota": [0],
    "disk-quota-physical": [0, "100GB"],
    "checksum": ["required"],
    "checksum-physical": ["required", "", "optional", "off"],
    "analyze": ["optional", "", "required", "off"],
    "range-concurrency": [0, 16],
    "compress-kv-pairs": ["", "gzip"],
    "pd-addr": ["", "127.0.0.1:2379"],
}

SYNCER: Final[Mapping[str, Values]] = {
    "meta-file": ["", "x"],
    "worker-count": [16, 0],
    "batch": [100, 0],
    "queue-size": [1024, 0],
    "checkpoint-flush-interval": [30, 0],
    "compact": [False, True],
    "multiple-rows": [False, True],
    "max-retry": [0, 100],
    "auto-fix-gtid": [False, True],
    "enable-gtid": [False, True],
    "disable-detect": [False, True],
    "safe-mode": [False, True],
    "safe-mode-duration": ["60s", "", "0s"],
    "enable-ansi-quotes": [False, True],
}

VALIDATOR: Final[Mapping[str, Values]] = {
    "mode": ["none", "", "fast", "full"],
    "worker-count": [4, 0],
    "validate-interval": ["10s", "0s"],
    "check-interval": ["5s", "0s"],
    "row-error-delay": ["30m0s", "30m"],
    "meta-flush-interval": ["5m0s", "5m", "1ns"],
    "batch-query-size": [100, 0],
    "max-pending-row-size": ["500m", ""],
    "max-pending-row-count": [NO_LIMIT, 0],
}

ROUTE: Final[Mapping[str, Values]] = {
    "schema-pattern": ["shop_*", "~^shop_[0-9]+$"],
    "table-pattern": ["t_*", ""],
    "target-schema": ["shop"],
    "target-table": ["t", ""],
    "extract-table": [None, {"table-regexp": "t_(.*)", "target-column": "c_table"}],
    "extract-schema": [None, {"schema-regexp": "shop_(.*)", "target-column": "c_schema"}],
    "extract-source": [None, {"source-regexp": "mysql-(.*)", "target-column": "c_source"}],
}

EXPRESSION_FILTER: Final[Mapping[str, Values]] = {
    "schema": ["shop"],
    "table": ["t"],
    "insert-value-expr": ["c % 2 = 0", ""],
    "update-old-value-expr": [""],
    "update-new-value-expr": [""],
    "delete-value-expr": [""],
}

LIST: Final[Mapping[str, Values]] = {
    "do-dbs": [[], ["shop", "~^shop_\\d+$"]],
    "do-tables": [[], [{"db-name": "shop", "tbl-name": "~^t_[\\d]+"}]],
    "ignore-dbs": [[], ["mysql"]],
    "ignore-tables": [[], [{"db-name": "shop", "tbl-name": "log_*"}]],
}
