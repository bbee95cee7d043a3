"""What makes one table of a task fail on real servers, and what mends it: the kinds of errors that are `of_tables`.

A kind that no pair of servers of one flavour produces in a running task is named below with the test that raises it
otherwise; `tests/unit/test_errors_of_tables.py` demands that each kind has one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dm.mysql.dialect import Flavor

Form = Literal["keyed", "keyless"]
Way = Literal["", "skip", "replace", "inject", "drop"]
BOTH: Final[tuple[Form, ...]] = ("keyed", "keyless")
KEYED: Final[tuple[Form, ...]] = ("keyed",)
COLUMNS: Final[Mapping[Form, str]] = {"keyed": "id INT PRIMARY KEY, v INT", "keyless": "id INT, v INT"}
WITHOUT_LOG, WITH_LOG = "SET SESSION sql_log_bin = 0", "SET SESSION sql_log_bin = 1"


@dataclass(frozen=True)
class Cause:
    """`{t}` is the table, `{s}` its schema. Rows 1 to 3 are there, 10 to 30 and above 700 are the test's."""

    error: str
    source: tuple[str, ...]  # what fails then, in one session
    target: tuple[str, ...] = ()  # done at the target beforehand
    mend: tuple[str, ...] = ()  # done there afterwards
    forms: tuple[Form, ...] = BOTH
    columns: str = ""  # further ones, with rows' values of their own
    options: str = ""  # of the table, on both sides
    way: Way = ""  # what a person does besides; what is dropped has to be loaded again
    instead: str = ""  # of `replace` and `inject`: the statement
    flavors: tuple[Flavor, ...] = ("mysql", "mariadb")
    before: tuple[str, ...] = ()  # at the source, applied before anything happens at the target
    compared: str = "*"  # the columns that are equal in the end


def _row(number: int, value: object = None) -> str:
    return f"INSERT INTO {{t}} (id, v) VALUES ({number}, {number if value is None else value})"


_BY_RANGE: Final = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (500), PARTITION p1 VALUES LESS THAN {})"

CAUSES: Final[Mapping[str, Cause]] = {
    "a row in the way": Cause("duplicate-key", (_row(9),), (_row(9, 0),), ("DELETE FROM {t} WHERE id = 9",), KEYED),
    "no row to update": Cause(
        "row-missing", ("UPDATE {t} SET v = 8 WHERE id = 1",), ("DELETE FROM {t} WHERE id = 1",), (_row(1),)
    ),
    "no row to delete": Cause(
        "row-missing", ("DELETE FROM {t} WHERE id = 1",), ("DELETE FROM {t} WHERE id = 1",), (_row(1),)
    ),
    "a check": Cause(
        "row-check-refused",
        (_row(600),),
        ("ALTER TABLE {t} ADD CONSTRAINT small CHECK (v < 50)",),
        ("ALTER TABLE {t} DROP CONSTRAINT small",),
    ),
    "an expression": Cause(
        "row-expression-failed",
        (_row(999),),
        ("ALTER TABLE {t} ADD COLUMN g BIGINT AS (v * 10000000000000000) STORED",),
        ("ALTER TABLE {t} DROP COLUMN g",),
    ),
    "a value too long": Cause(
        "row-value-refused",
        (_row(600, 12345),),
        ("ALTER TABLE {t} MODIFY v VARCHAR(3)",),
        ("ALTER TABLE {t} MODIFY v INT",),
    ),
    "a NULL": Cause(
        "row-value-refused",
        (_row(600, "NULL"),),
        ("ALTER TABLE {t} MODIFY v INT NOT NULL",),
        ("ALTER TABLE {t} MODIFY v INT NULL",),
    ),
    "a partition": Cause(
        "row-partition-missing",
        (_row(600),),
        ("ALTER TABLE {t} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (500))",),
        ("ALTER TABLE {t} ADD PARTITION (PARTITION p1 VALUES LESS THAN MAXVALUE)",),
    ),
    "a key of the target's own": Cause(
        "duplicate-key",
        (_row(600, 5), _row(601, 5)),
        ("ALTER TABLE {t} ADD UNIQUE KEY by_v (v)",),
        ("ALTER TABLE {t} DROP INDEX by_v",),
    ),
    "a row too large": Cause(
        "packet-too-large",
        ("INSERT INTO {t} (id, v, c) VALUES (600, 6, REPEAT('c', 3000000))",),
        mend=("SET GLOBAL max_allowed_packet = 64 << 20",),
        columns="c LONGTEXT",
        forms=("keyless",),  # sessions that are open keep their value
    ),
    "a member": Cause(
        "member-missing",
        ("INSERT INTO {t} (id, v, e) VALUES (600, 6, 'b')",),
        ("ALTER TABLE {t} MODIFY e ENUM('a')",),
        ("ALTER TABLE {t} MODIFY e ENUM('a', 'b')",),
        columns="e ENUM('a', 'b')",
    ),
    "a trigger": Cause(
        "statement-failed",
        (_row(600),),
        ("CREATE TRIGGER {t}_refuses BEFORE INSERT ON {t} FOR EACH ROW SIGNAL SQLSTATE '45000'",),
        ("DROP TRIGGER {t}_refuses",),
    ),
    "no table": Cause(
        "target-table-missing", (_row(9),), ("RENAME TABLE {t} TO {t}_away",), ("RENAME TABLE {t}_away TO {t}",)
    ),
    "no column": Cause(
        "column-missing",
        (_row(9),),
        ("ALTER TABLE {t} DROP COLUMN v",),
        ("ALTER TABLE {t} ADD COLUMN v INT", "UPDATE {t} SET v = id"),
    ),
    "a table that is another one by now": Cause(
        "target-table-altered",
        (_row(9),),
        ("ALTER TABLE {t} DROP COLUMN v",),
        ("ALTER TABLE {t} ADD COLUMN v INT", "UPDATE {t} SET v = id"),
        before=(_row(8),),
    ),
    "a narrower column": Cause(
        "columns-narrower",
        ("INSERT INTO {t} (id, v, d) VALUES (600, 6, '2024-01-02 03:04:05.600000')",),
        ("ALTER TABLE {t} MODIFY d DATETIME",),
        ("ALTER TABLE {t} MODIFY d DATETIME(6)",),
        columns="d DATETIME(6)",
    ),
    "an engine": Cause(
        "target-table-unsuitable",
        (_row(9),),
        ("ALTER TABLE {t} ENGINE = MyISAM",),
        ("ALTER TABLE {t} ENGINE = InnoDB",),
    ),
    "a value that another zone has computed": Cause(
        "computed-value-differs",
        ("SET SESSION time_zone = '+09:00'", "INSERT INTO {t} (id, v, ts) VALUES (600, 6, '2020-01-01 00:30:00')"),
        mend=("ALTER TABLE {t} MODIFY h INT",),
        columns="ts TIMESTAMP NULL, h INT AS (HOUR(ts)) STORED",
        flavors=("mysql",),
    ),
    "a key that another zone has computed": Cause(
        "computed-key-met",
        (
            "INSERT INTO {t} (id, v, ts) VALUES (600, 6, '2020-07-01 12:30:00')",
            "SET SESSION time_zone = '+09:00'",
            "INSERT INTO {t} (id, v, ts) VALUES (601, 6, '2020-07-02 06:00:00')",
        ),
        mend=("ALTER TABLE {t} DROP INDEX by_d",),
        columns="ts TIMESTAMP NULL, d DATE AS (DATE(ts)) VIRTUAL, UNIQUE KEY by_d (d)",
        flavors=("mysql",),
        compared="id, v, ts",
    ),
    "a statement that the target refuses": Cause(
        "ddl-failed",
        ("ALTER TABLE {t} ADD INDEX i (id)",),
        ("CREATE INDEX i ON {t} (v)",),
        ("DROP INDEX i ON {t}",),
    ),
    "a statement over other rows": Cause(
        "ddl-failed",
        ("ALTER TABLE {t} ADD UNIQUE KEY (v)",),
        (_row(9, 1),),
        ("DELETE FROM {t} WHERE id = 9",),
    ),
    "values of each server's own": Cause(
        "ddl-values-differ",
        ("ALTER TABLE {t} ADD COLUMN n BIGINT DEFAULT (connection_id())",),
        way="replace",
        instead="ALTER TABLE {t} ADD COLUMN n BIGINT",
        compared="id, v",
    ),
    "other partitions": Cause(
        "ddl-partitions-differ",
        ("ALTER TABLE {t} DROP PARTITION p0",),
        (f"ALTER TABLE {{t}} {_BY_RANGE.format('MAXVALUE').replace('500', '400')}",),
        ("DELETE FROM {t} WHERE id < 500",),
        options=_BY_RANGE.format("MAXVALUE"),
        way="skip",
    ),
    "a constraint that is not found": Cause(
        "ddl-constraint-unclear",
        ("ALTER TABLE {t} DROP CONSTRAINT {n}_low", _row(600, -5)),
        ("ALTER TABLE {t} DROP CONSTRAINT {n}_low, ADD CONSTRAINT {n}_bottom CHECK (v > 0)",),
        columns="CONSTRAINT {n}_low CHECK (v > 0), CONSTRAINT {n}_high CHECK (v < 999)",
        way="replace",
        instead="ALTER TABLE {t} DROP CONSTRAINT {n}_bottom",
        before=(_row(8),),
    ),
    "rows of a structure that is not known": Cause(
        "structure-mismatch",
        (WITHOUT_LOG, "ALTER TABLE {t} ADD COLUMN b INT", WITH_LOG, "INSERT INTO {t} VALUES (600, 6, 6)"),
        way="drop",  # as failing-tasks.md says: what comes back is loaded again
        before=(_row(8),),
    ),
    "rows after a statement that was not replicated": Cause(
        "structure-mismatch",
        (WITHOUT_LOG, "ALTER TABLE {t} ADD COLUMN b INT", WITH_LOG, "INSERT INTO {t} VALUES (600, 6, 6)"),
        way="inject",
        instead="ALTER TABLE {t} ADD COLUMN b INT",
        before=(_row(8),),
    ),
    "a statement that a filter refuses": Cause("event-refused", ("ALTER TABLE {t} COMMENT = 'forbidden'",), way="skip"),
    "a key whose cascades are not logged": Cause(
        "ddl-cascade-not-logged",
        (
            "INSERT IGNORE INTO {s}.parent SELECT v FROM {t}",
            "ALTER TABLE {t} ADD FOREIGN KEY (v) REFERENCES {s}.parent (id) ON DELETE CASCADE",
            "INSERT IGNORE INTO {s}.parent VALUES (14), (15), (16), (17), (700), (701)",
        ),
        way="skip",
        flavors=("mariadb",),  # this MySQL logs them
    ),
    "a ghost that nothing is known of": Cause(
        "online-ddl-unknown",
        (
            WITHOUT_LOG,
            "CREATE TABLE {s}._{n}_gho LIKE {t}",
            "ALTER TABLE {s}._{n}_gho ADD COLUMN c INT",
            "INSERT INTO {s}._{n}_gho SELECT *, NULL FROM {t}",
            WITH_LOG,
            "RENAME TABLE {t} TO {s}._{n}_del, {s}._{n}_gho TO {t}",
        ),
        way="replace",
        instead="ALTER TABLE {t} ADD COLUMN c INT",
    ),
}

_SYNCER, _UNIT = "tests/live/syncer", "tests/unit"

ELSEWHERE: Final[Mapping[str, str]] = {
    # Two servers of different flavours, or a TiDB.
    "json-too-deep": "tests/live/downstream/test_deep_documents.py",
    "ddl-collation-unknown": f"{_SYNCER}/errors/test_ways_out.py",
    "ddl-default-unclear": f"{_SYNCER}/ddl/test_server_written.py",  # of another schema
    "target-limit": f"{_SYNCER}/tidb/test_tidb_limits.py",
    # Settings of the task, or of the servers, that the others would have too: safe mode, rows as SQL, time zones.
    "own-key-met": f"{_SYNCER}/apply/test_own_keys.py",
    "time-zone-unknown": f"{_UNIT}/changes/test_local_time.py",
    "expression-zone-unknown": f"{_UNIT}/changes/test_local_time.py",
    "computed-key-differs": f"{_SYNCER}/apply/test_computing.py",
    "json-value-inexpressible": f"{_SYNCER}/ddl/test_session_forms.py",
    "partial-row-image": f"{_SYNCER}/ddl/test_session_forms.py",
    "ddl-column-kept": f"{_SYNCER}/ddl/test_rows_in_place.py",
    "ddl-filter-cuts": f"{_UNIT}/syncer/ddl/test_planner.py",
    # `on-error: table` is refused beside checked foreign keys.
    "row-reference-refused": f"{_SYNCER}/errors/test_ways_out.py",
    # Only where a run begins: after a load, a crash, a way back, a person's change of what is stored.
    "ddl-within-dump": f"{_SYNCER}/apply/test_dump_window.py",
    "ddl-outcome-unclear": f"{_SYNCER}/ddl/test_ddl.py",
    "replay-out-of-order": f"{_SYNCER}/apply/test_ordered_tables.py",
    "structure-unknown": f"{_SYNCER}/start/test_start_inside.py",
    "ddl-untrackable": f"{_SYNCER}/errors/test_ways_out.py",
    # A table that is LIKE a temporary one is new: it has no rows to come back to.
    "ddl-charset-unclear": f"{_SYNCER}/ddl/test_server_written.py",
    # No server writes it: damage, a type or text of another version, a defect of dm.
    "row-layout-mismatch": "tests/live/binlog/test_events.py",
    "value-changed": f"{_UNIT}/downstream/test_warnings.py",
    "row-corrupt": f"{_UNIT}/mysql/binlog/test_row_events.py",
    "ddl-splice-mismatch": f"{_UNIT}/mysql/sql/test_split.py",
    "ddl-defect": f"{_UNIT}/syncer/ddl/test_barrier.py",
    "column-type-unknown": f"{_UNIT}/mysql/types/test_vector.py",
    "structure-not-understood": f"{_UNIT}/mysql/schema/test_parse.py",
    "online-ddl-different": f"{_UNIT}/syncer/ddl/test_online_ddl.py",
}
"""Kinds that the causes do not produce, and the test in which each is raised."""
