"""What MariaDB has, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dm.mysql.dialect.server import ALWAYS, NEVER, Dialect, Flavor, Since


class MariaDB(Dialect):
    """MariaDB 10.1 and later."""

    flavor: ClassVar[Flavor] = "mariadb"
    family = "mariadb"
    title = "MariaDB"
    newest = 101100
    oldest_source = 100100
    json_since = "10.2.7"  # MDEV-9144

    format_tells_checksum = Since(50300)
    more_are_characters = ALWAYS
    maps_long_keys = ALWAYS
    tells_explicit_timestamps = Since(101000)
    flags_explicit_timestamps = ALWAYS
    logs_no_defaults = ALWAYS
    renames_temporaries = ALWAYS

    gtids_have_domains = ALWAYS
    gtid_begins = ALWAYS
    asks_capability = ALWAYS
    has_server_uuid = NEVER  # 10 and 11
    snapshot_tells_position = ALWAYS
    commits_before_gtid = ALWAYS
    applier = "BINLOG REPLAY"
    renumbers = "BINLOG REPLAY"
    applying = ("BINLOG REPLAY", "SUPER")

    executes_m_comments = ALWAYS
    has_oracle_mode = ALWAYS
    reserves_replication_words = ALWAYS
    honours_inline_references = Since(100500)
    takes_engine_options = ALWAYS
    takes_geometry_lengths = ALWAYS
    json_is_text = ALWAYS
    checks_belong_to_columns = ALWAYS
    drops_checks_as_constraints = ALWAYS
    converts_with_own_default = ALWAYS
    default_has_no_collation = Since(100900)  # MDEV-27896; tried: 10.5 and 10.11
    fills_in_digits = ALWAYS
    hides_columns = Since(100300)  # MDEV-10177
    hides_indexes = Since(100600)  # MDEV-7317
    index_words = ("NOT IGNORED", "IGNORED")
    replaces_objects = ALWAYS
    sets_explicit_timestamps = Since(101000)  # before, the variable is one for the whole server
    null_is_now = ALWAYS
    read_only_without_super = Since(101100)

    plugins_come_via = ALWAYS
    keeps_hashes_printable = ALWAYS

    has_gb18030 = NEVER

    has_uca1400 = Since(101001)  # MDEV-27009
    unicode_is_uca1400 = Since(110501)  # MDEV-25829
    chooses_collations = Since(110201)
    chooses_utf8 = Since(100601)  # MDEV-8334
    rounds_fractions = NEVER
    fraction_mode = "TIME_ROUND_FRACTIONAL"
    fraction_bit = 1 << 34
    says_replica_status = Since(100501)  # MDEV-18777
    has_fraction_mode = Since(100401)
    own_modes: ClassVar[Mapping[int, str]] = {1 << 32: "EMPTY_STRING_IS_NULL", 1 << 34: "TIME_ROUND_FRACTIONAL"}

    tells_generation_expressions = Since(100200)
    tells_check_levels = Since(100510)
    tells_column_collations = Since(101100)  # MDEV-29446: character_set_collations may say another one
    tells_any_collation = Since(101001)
    prints_defaults_as_sql = Since(100207)

    row_event_variables: ClassVar[Mapping[str, str]] = {
        "slave_exec_mode": "STRICT",
        "slave_type_conversions": "",
        "slave_skip_errors": "OFF",
        "replicate_rewrite_db": "",
    }
    row_events_keep_stored = ALWAYS
    events_stop_time = ALWAYS
    rewrites_schemas = ALWAYS
    skips_checks = ALWAYS
    has_set_statement = ALWAYS
    returns_deleted_rows = ALWAYS
    hints_indexes = NEVER
