r"""How TiDB differs from MySQL, whose dialect it speaks.

Its sessions (`settled`) count, lock and commit as elsewhere only with these variables:

- `tidb_txn_mode`: pessimistic. In an optimistic transaction a row that is there already is found at COMMIT, a count is
  that of a snapshot, and the lane's row keeps nobody waiting. DM's own files ask for optimistic ones; that is left
  aside, as `tidb_txn_mode` is not for speed here: lanes never write each other's rows.
- Rows with the same key are found by their statement (`.._check_in_place_pessimistic`), not at COMMIT.
- Nothing is divided into transactions of its own (`tidb_batch_..`, `tidb_dml_type`), and no read is of the past.
- A key that a TiDB would draw at random (AUTO_RANDOM) may be written, as the source has one.
- Who reads after a COMMIT sees it, and what came before it (`tidb_guarantee_linearizability`).
- Of the variables that every server has, those that a TiDB heeds and some version may not have.

A version is not asked for variables that it lacks.

SHOW CREATE TABLE and information_schema print the members of an ENUM or SET, and SHOW CREATE TABLE the comments of
partitions, with quotes doubled and NUL, LF and CR as `\0`, `\n` and `\r`, but a backslash as it is (OutputFormat in
pkg/parser/format, used by FieldType.CompactStr and ddl.AppendPartitionDefs; other literals go through that of
pkg/util/format, which escapes it). So `ENUM('a\\')` comes as `enum('a\')`, and is no SQL. In `escaped_type` and
`escaped_table` the quotes alone say where such a literal ends. `\0`, `\n` and `\r` are taken for the control
characters: where they are a backslash and a letter, the member is another one than the source's, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from dm.mysql.dialect.mysql import MySQL
from dm.mysql.dialect.server import ALWAYS, NEVER, Flavor

VARIABLES: Final = "tidb_"
"""What the names of variables begin with that only TiDB has."""


class TiDB(MySQL):
    """TiDB, all versions that dm has met; the version is that of the MySQL it says it is like."""

    flavor: ClassVar[Flavor] = "tidb"
    title = "TiDB"

    has_binlog = NEVER
    takes_row_events = NEVER
    scans_once_for_events = NEVER
    may_lose_long_values = NEVER
    no_row_events = "TiDB takes no row events"
    hides_columns = NEVER
    hides_indexes = ALWAYS
    takes_few_operations = ALWAYS
    passes_over_clauses = ALWAYS
    sets_explicit_timestamps = NEVER
    keeps_week_format = NEVER
    rereads_expressions = NEVER
    takes_offsets = NEVER
    hashes_keys_otherwise = ALWAYS
    has_engines = NEVER  # it has one, and takes any name for it

    has_roles = ALWAYS
    roles_are_accounts = ALWAYS
    takes_hashes_as_digits = ALWAYS
    prints_hashes_as_digits = NEVER
    prints_all_privileges = NEVER
    has_second_passwords = NEVER
    login_plugins = ("mysql_native_password", "caching_sha2_password")

    has_routines = NEVER
    has_triggers = NEVER
    has_events = NEVER

    takes_collation_numbers = NEVER
    has_fraction_mode = NEVER

    lost_digits = ("Warning", 1366)  # ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, with "Incorrect decimal value"
    tells_index_expressions = ALWAYS
    tells_column_collations = NEVER
    shows_schema_defaults = NEVER
    respells = ALWAYS
    # It has no such counter; an account without PROCESS sees its own sessions only.
    threads_running = "SELECT 'Threads_running', COUNT(*) FROM information_schema.processlist WHERE command <> 'Sleep'"
    prints_bare_members = ALWAYS

    keeps_negative_zero = NEVER
    tells_bits_of_doubles = NEVER
    takes_json_types = NEVER  # inside of a document a DECIMAL is a DOUBLE, and versions differ in expressions for dates
    tells_json_types = NEVER
    orders_documents = NEVER
    casts_cut_texts = ALWAYS
    stores_texts_in_utf8 = ALWAYS
    numbers_wide_sets = NEVER
    compares_members_by_name = ALWAYS
    reverses_bits_of_values = ALWAYS
    weighs_without_end = ALWAYS

    hints_modes = NEVER
    locks_by_name = NEVER
    locks_shared = NEVER
    ddl_is_a_job = ALWAYS
    takes_local_data = NEVER  # that was not tried; an INSERT says what it means
    adds_indexes_at_once = NEVER
    joins_while_loading = NEVER
    reads_in_key_order = NEVER
    takes_replays = NEVER
    has_snapshots = ALWAYS
    settled: ClassVar[Mapping[str, str]] = {
        "tidb_txn_mode": "pessimistic",
        "tidb_constraint_check_in_place_pessimistic": "ON",
        "tidb_disable_txn_auto_retry": "ON",
        "tidb_guarantee_linearizability": "ON",
        "tidb_low_resolution_tso": "OFF",
        "tidb_read_staleness": "0",
        "tidb_snapshot": "",
        "tidb_replica_read": "leader",
        "tidb_dml_type": "STANDARD",
        "tidb_batch_commit": "OFF",
        "tidb_batch_insert": "OFF",
        "tidb_batch_delete": "OFF",
        "allow_auto_random_explicit_insert": "ON",
        "tidb_enable_external_ts_read": "OFF",
        "tidb_read_consistency": "strict",
        "group_concat_max_len": str(1 << 24),
        "div_precision_increment": "4",
        "default_week_format": "0",
        "block_encryption_mode": "aes-128-ecb",
    }


_LITERAL: Final = r"'(?:[^']|'')*'"
_MEMBERS: Final = re.compile(rf"(?:enum|set)\({_LITERAL}(?:,{_LITERAL})*\)")
_NAME: Final = r"`(?:[^`]|``)*`"
_COLUMN: Final = re.compile(rf"^(  {_NAME} )({_MEMBERS.pattern})", re.MULTILINE)
# Values before it are escaped.
_PARTITION: Final = re.compile(
    rf"^([( ]PARTITION {_NAME}(?:[^'\n]|'(?:[^'\\]|''|\\.)*')*? COMMENT )({_LITERAL})", re.MULTILINE
)
_BARE: Final = re.compile(r"\\(?![0nr])")


def escaped_type(printed: str) -> str:
    """A column's type as information_schema has it, with members as literals of SQL."""
    return _escaped(printed) if _MEMBERS.fullmatch(printed) else printed


def escaped_table(printed: str) -> str:
    """A SHOW CREATE TABLE as SQL."""
    if "\\" not in printed:
        return printed
    head, separator, partitions = printed.partition("\nPARTITION BY ")
    head = _COLUMN.sub(lambda found: found[1] + _escaped(found[2]), head)
    return head + separator + _PARTITION.sub(lambda found: found[1] + _escaped(found[2]), partitions)


def _escaped(printed: str) -> str:
    return _BARE.sub(r"\\\\", printed)
