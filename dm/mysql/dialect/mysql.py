"""What MySQL has, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dm.mysql.dialect.server import ALWAYS, Dialect, Flavor, Since


class MySQL(Dialect):
    """MySQL 5.6 to 9.7."""

    flavor: ClassVar[Flavor] = "mysql"
    family = "mysql"
    title = "MySQL"
    newest = 90700
    oldest_source = 50600
    untried_sources = Since(90800)
    json_since = "5.7.8"

    format_tells_checksum = Since(50601)  # checksum_version_split
    rows_have_extra_data = ALWAYS
    flags_generated_key = ALWAYS
    has_commit_times = Since(80001)
    read_only_without_super = Since(80000)
    logs_cascades = Since(90600)
    tells_explicit_timestamps = Since(50700)
    logs_clients_bytes = Since(60000)  # 5.6 was seen to write UTF-8, 9.7 the client's bytes

    commits_before_gtid = Since(50700)  # 5.6 adds one at the flush
    says_replica_status = Since(80022)
    says_binary_log_status = Since(80200)  # 8.4 removed SHOW MASTER STATUS
    converts_xids = ALWAYS
    sizes_by_converting = Since(80000)
    prints_literals_bytes = ALWAYS
    has_xa_privilege = Since(80000)
    unites_roles = Since(80000)
    prefers_exact_patterns = ALWAYS
    shows_routines = Since(80000)
    has_show_routine = Since(80020)
    applier = "REPLICATION_APPLIER"
    renumbers = "SESSION_VARIABLES_ADMIN"
    applying = ("REPLICATION_APPLIER", "SUPER", "BINLOG_ADMIN")

    has_roles = Since(80000)
    roles_are_accounts = Since(80000)
    takes_hashes_as_digits = Since(80017)
    prints_hashes_as_digits = Since(80017)
    prints_all_privileges = Since(80000)
    has_second_passwords = Since(80014)

    honours_inline_references = Since(90000)
    names_checks_after_table = ALWAYS
    hides_columns = Since(80023)
    hides_indexes = Since(80000)
    says_visible = ALWAYS
    index_words = ("VISIBLE", "INVISIBLE")
    sets_explicit_timestamps = ALWAYS
    keeps_week_format = ALWAYS
    rereads_expressions = ALWAYS
    takes_offsets = Since(80019)

    # Of GRANT, and of what SHOW CREATE TABLE leaves out: MySQL 8.0 has them no more.
    forgotten_modes = frozenset({"NO_AUTO_CREATE_USER", "NO_FIELD_OPTIONS", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS"})

    utf8mb4_is_0900 = Since(80000)
    has_uca0900 = Since(80000)
    chooses_utf8mb4 = Since(80011)
    fraction_mode = "TIME_TRUNCATE_FRACTIONAL"
    fraction_bit = 1 << 32
    has_fraction_mode = Since(80000)
    own_modes: ClassVar[Mapping[int, str]] = {1 << 32: "TIME_TRUNCATE_FRACTIONAL"}

    tells_generation_expressions = Since(50700)  # 5.6 has no generated columns either
    tells_index_expressions = Since(80013)
    tells_column_collations = Since(80000)  # default_collation_for_utf8mb4 may say another one
    shows_schema_defaults = Since(80000)
    shows_expressions = ALWAYS

    keeps_negative_zero = ALWAYS
    takes_json_types = ALWAYS
    tells_json_types = Since(80004)

    # The older and the newer names.
    row_event_variables: ClassVar[Mapping[str, str]] = {
        "rbr_exec_mode": "STRICT",
        "replica_type_conversions": "",
        "slave_type_conversions": "",
        "replica_skip_errors": "OFF",
        "slave_skip_errors": "OFF",
    }
    scans_once_for_events = ALWAYS
    may_lose_long_values = ALWAYS
    has_gtid_next = ALWAYS
    says_replica = Since(80026)
