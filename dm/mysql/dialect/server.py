"""What there is to ask of a server: each capability is named once, with its reason.

A capability is `Since` a version, as executable comments count (80036 is 8.0.36), `ALWAYS` or `NEVER`. Here stands what
a server has that no file says more of. To ask for a version's capability without a version is an error of dm's own:
so no difference is lost where only the flavor is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Self, overload

LoggedFlavor = Literal["mysql", "mariadb"]
"""Of the servers that have a binlog."""
Flavor = Literal[LoggedFlavor, "tidb"]


class Since:
    """A capability, by the least version that has it; None: no version has."""

    def __init__(self, least: int | None) -> None:
        self._least = least

    @overload
    def __get__(self, server: None, owner: type[Dialect]) -> Self: ...
    @overload
    def __get__(self, server: Dialect, owner: type[Dialect]) -> bool: ...
    def __get__(self, server: Dialect | None, owner: type[Dialect]) -> bool | Self:
        """Whether a server has it; raises ValueError where that depends on a version that is not known."""
        if server is None:
            return self
        if not self._least:
            return self._least == 0
        if server.version is None:
            raise ValueError("the server's version decides, and is not known")
        return server.version >= self._least


ALWAYS: Final = Since(0)
NEVER: Final = Since(None)
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Dialect:
    """What one server has; `version` as executable comments count, None where it is not known."""

    flavor: ClassVar[Flavor]
    family: ClassVar[str]
    """The dialect's name; servers of one family understand each other's statements."""
    title: ClassVar[str]
    """The name for people."""
    newest: ClassVar[int]
    """The version as whose SQL a text is read that comes without its server's."""
    oldest_source: ClassVar[int]
    untried_sources: Since = NEVER
    """So new that no such server was ever a source."""
    json_since: ClassVar[str]
    """The version that brought the type or word JSON, which the progress tables need."""

    def __init__(self, version: int | None = None) -> None:
        self.version: Final = version

    # The binlog.

    has_binlog: Since = ALWAYS
    format_tells_checksum: Since = ALWAYS
    """The format description ends with the algorithm of its checksum."""
    rows_have_extra_data: Since = NEVER
    """Row events are those of version 2."""
    flags_generated_key: Since = NEVER
    """A table map's flag says that the key is one the server has made."""
    more_are_characters: Since = NEVER
    """Its optional metadata counts GEOMETRY and COMPRESSED columns as character columns, too."""
    maps_long_keys: Since = NEVER
    """A table map has a hidden column for each unique key that is found by a hash."""
    has_commit_times: Since = NEVER
    """Each transaction has its time in microseconds (original_commit_timestamp)."""
    logs_cascades: Since = NEVER
    """The server, not InnoDB, executes and logs what foreign keys demand."""
    tells_explicit_timestamps: Since = NEVER
    """A query event has explicit_defaults_for_timestamp of its session."""
    flags_explicit_timestamps: Since = NEVER
    """It has it as a bit of flags2."""
    logs_clients_bytes: Since = ALWAYS
    """A DROP that the server logs has the client's bytes; before, it was written in UTF-8."""
    logs_no_defaults: Since = NEVER
    """Whether a statement's tables got another default than the schema has now, the log may leave open."""
    renames_temporaries: Since = NEVER
    """RENAME TABLE takes temporary tables."""

    # GTIDs, positions, and what a source tells of itself.

    gtids_have_domains: Since = NEVER
    """A GTID is domain, server and number (0-1-5), each transaction has one, and no set says what is purged."""
    gtid_begins: Since = NEVER
    """The event of a GTID begins the transaction; elsewhere a BEGIN does."""
    asks_capability: Since = NEVER
    """It sends GTIDs and annotations to a replica that says it knows them."""
    has_server_uuid: Since = ALWAYS
    snapshot_tells_position: Since = NEVER
    """A consistent snapshot says at which file and offset it stands (binlog_snapshot_file)."""
    commits_before_gtid: Since = NEVER
    """The rows of each GTID in gtid_executed can be read."""
    says_binary_log_status: Since = NEVER
    """The words are SHOW BINARY LOG STATUS."""
    says_replica_status: Since = NEVER
    """The words are SHOW REPLICA STATUS."""
    converts_xids: Since = NEVER
    """XA RECOVER CONVERT XID is understood; elsewhere the ids come as they are."""
    has_xa_privilege: Since = NEVER
    """XA RECOVER needs XA_RECOVER_ADMIN."""
    unites_roles: Since = NEVER
    """CURRENT_ROLE() may name several, and partial_revokes makes patterns literal."""
    prefers_exact_patterns: Since = NEVER
    """Of two grants on patterns of schemas, the one that is longer before its first wildcard counts."""
    shows_routines: Since = NEVER
    """There is no mysql.proc any more."""
    has_show_routine: Since = NEVER
    threads_running: ClassVar[str] = "SHOW GLOBAL STATUS LIKE 'Threads_running'"
    """Asks, as the second column, how many sessions execute something now, the one that asks among them."""
    applier: ClassVar[str]
    """The privilege that BINLOG needs."""
    renumbers: ClassVar[str]
    """The privilege that setting pseudo_thread_id needs."""
    applying: ClassVar[tuple[str, ...]]
    """The privileges any of which lets an account apply row events."""

    # The text of statements.

    executes_m_comments: Since = NEVER
    """What stands in `/*M! .. */` is part of the statement, and comments for MySQL's 5.7 to 9 are not."""
    has_oracle_mode: Since = NEVER
    """sql_mode ORACLE changes the meaning of types."""
    reserves_replication_words: Since = NEVER
    """DO_DOMAIN_IDS, PAGE_CHECKSUM and others are reserved; elsewhere they may be names."""
    honours_inline_references: Since = NEVER
    """REFERENCES after a column makes a foreign key."""
    takes_engine_options: Since = NEVER
    """Columns have options of the storage engine, `name = value`."""
    takes_geometry_lengths: Since = NEVER
    """A length after a geometry type is read and ignored."""
    json_is_text: Since = NEVER
    """JSON is another name of LONGTEXT."""
    checks_belong_to_columns: Since = NEVER
    """A CHECK in a column's definition belongs to the column, and a MODIFY replaces it."""
    names_checks_after_table: Since = NEVER
    """A CHECK without a name is called `t_chk_1`, and those of CREATE TABLE .. LIKE get new names."""
    drops_checks_as_constraints: Since = NEVER
    """DROP CHECK is unknown: the words are DROP CONSTRAINT."""
    prints_literals_bytes: Since = NEVER
    """SHOW CREATE TABLE prints literals in their own character sets (`dm.mysql.schema.literal_bytes`)."""
    default_has_no_collation: Since = NEVER
    """CHARACTER SET DEFAULT is the table's schema's character set alone; else see `dm.syncer.ddl.server_written`."""
    sizes_by_converting: Since = NEVER
    """MODIFY and CHANGE to a TEXT beside CONVERT TO take its size from the column before."""
    converts_with_own_default: Since = NEVER
    """A DEFAULT CHARSET beside CONVERT TO is kept; elsewhere the later of the two counts."""
    fills_in_digits: Since = NEVER
    """CURRENT_TIMESTAMP in a default gets the column's digits."""
    hides_columns: Since = NEVER
    hides_indexes: Since = NEVER
    says_visible: Since = NEVER
    """VISIBLE may stand after a column."""
    index_words: ClassVar[tuple[str, str]]
    """What shows an index to the optimizer, and what hides it."""
    replaces_objects: Since = NEVER
    """CREATE OR REPLACE TABLE and others of this kind."""
    takes_few_operations: Since = NEVER
    """Few operations of one ALTER TABLE may stand together."""
    passes_over_clauses: Since = NEVER
    """A CREATE TABLE may be taken without all it says: what was made has to be read."""
    sets_explicit_timestamps: Since = NEVER
    """explicit_defaults_for_timestamp is a variable of each session."""
    null_is_now: Since = NEVER
    """NULL in a TIMESTAMP without NULL is the present moment, under either setting."""
    takes_offsets: Since = NEVER
    """Literals of moments may have an offset: '2020-01-01 00:00:00+02:00'."""
    keeps_week_format: Since = NEVER
    """An expression's WEEK(d) has the default_week_format of the session that made the table, else the reader's."""
    rereads_expressions: Since = NEVER
    """A session that opens a table reads its expressions in its own sql_mode, though they are kept as text with
    backslashes as escapes."""
    hashes_keys_otherwise: Since = NEVER
    """PARTITION BY KEY has another hash function, and what HASH makes of a value is not known to be the same."""

    # Accounts.

    has_roles: Since = ALWAYS
    roles_are_accounts: Since = NEVER
    """A role has a host, and may be any account."""
    plugins_come_via: Since = NEVER
    """The words are IDENTIFIED VIA plugin USING hash; elsewhere WITH and AS."""
    keeps_hashes_printable: Since = NEVER
    """The hash of a password is text, and SHOW CREATE USER has it."""
    takes_hashes_as_digits: Since = NEVER
    """IDENTIFIED .. AS takes 0x .., too."""
    prints_hashes_as_digits: Since = NEVER
    """SHOW CREATE USER prints them so, where the session wants it."""
    prints_all_privileges: Since = NEVER
    """SHOW GRANTS has each privilege on *.*, where an account has all."""
    has_second_passwords: Since = NEVER
    """An account may keep its old password beside the new one (RETAIN CURRENT PASSWORD)."""
    login_plugins: ClassVar[tuple[str, ...]] = ()
    """By which accounts can log in, where no table of the server tells them."""

    # Objects that are no tables.

    read_only_without_super: Since = NEVER
    """Privileges of their own set the read-only mode and pass it; before them SUPER does."""
    has_routines: Since = ALWAYS
    has_triggers: Since = ALWAYS
    has_events: Since = ALWAYS
    forgotten_modes: ClassVar[frozenset[str]] = frozenset()
    """Modes that are unknown here, and say nothing of what a statement of an object does elsewhere."""

    # Character sets, collations, modes.

    utf8mb4_is_0900: Since = NEVER
    """utf8mb4 alone means utf8mb4_0900_ai_ci."""
    has_uca0900: Since = NEVER
    has_uca1400: Since = NEVER
    unicode_is_uca1400: Since = NEVER
    """A Unicode character set alone means its uca1400_ai_ci."""
    chooses_collations: Since = NEVER
    """character_set_collations says what each character set alone means."""
    chooses_utf8mb4: Since = NEVER
    """default_collation_for_utf8mb4."""
    chooses_utf8: Since = NEVER
    """old_mode says whether utf8 means utf8mb3."""
    takes_collation_numbers: Since = ALWAYS
    """Variables for collations and lc_time_names take numbers."""
    rounds_fractions: Since = ALWAYS
    """Too many digits of a second are rounded; else they are cut off. `fraction_mode` says the opposite."""
    fraction_mode: ClassVar[str]
    fraction_bit: ClassVar[int]
    """Of that mode, in a query event."""
    has_fraction_mode: Since = NEVER
    own_modes: ClassVar[Mapping[int, str]]
    """Modes, by their bits in a query event, that no other server has."""

    # What a server prints.

    lost_digits: ClassVar[tuple[str, int]] = ("Note", 1265)
    """Level and code of the warning that a column which it computes has fewer digits than its expression."""
    tells_generation_expressions: Since = NEVER
    """information_schema.columns has generation_expression."""
    tells_index_expressions: Since = NEVER
    """information_schema.statistics has expression."""
    tells_check_levels: Since = NEVER
    """information_schema.check_constraints tells a column's CHECK from a table's."""
    tells_column_collations: Since = NEVER
    """SHOW CREATE TABLE leaves out no collation but the table's, or the one each server has for a character set."""
    tells_any_collation: Since = NEVER
    """Collations fit several character sets: full names are in collation_character_set_applicability."""
    shows_schema_defaults: Since = NEVER
    """SHOW CREATE DATABASE has the character set and collation also where they are the server's."""
    shows_expressions: Since = NEVER
    """SHOW CREATE TABLE has expressions in better words than information_schema."""
    prints_defaults_as_sql: Since = NEVER
    """information_schema has defaults as SQL; elsewhere as values."""
    respells: Since = NEVER
    """Types, defaults and expressions are printed in words of its own: they can't be compared with the source's."""
    prints_bare_members: Since = NEVER
    """The members of an ENUM or SET are printed with backslashes as they are (`escaped_table`)."""

    # Values: how they are compared, cast and written.

    keeps_negative_zero: Since = NEVER
    """A DOUBLE may be -0, which is another value than 0."""
    tells_bits_of_doubles: Since = ALWAYS
    """POINT() and HEX() tell the bits of a DOUBLE."""
    takes_json_types: Since = NEVER
    """A document keeps the types of its values: a DECIMAL, a date."""
    tells_json_types: Since = NEVER
    """JSON_TABLE can be asked for these types."""
    orders_documents: Since = ALWAYS
    """Documents can be compared in one form; else by what expressions make of them."""
    casts_cut_texts: Since = NEVER
    """CAST AS BINARY gives as many bytes as the text may have characters at most."""
    has_gb18030: Since = ALWAYS
    stores_texts_in_utf8: Since = NEVER
    """Texts of latin1 are kept in UTF-8, and CONVERT takes them for ASCII; a literal's bytes stay as they are."""
    numbers_wide_sets: Since = ALWAYS
    """The number of a SET of 64 members is exact."""
    compares_members_by_name: Since = NEVER
    """Two values of an ENUM or SET with one name, '' and the error value, are equal (`dm.changes.safe_mode`)."""
    reverses_bits_of_values: Since = NEVER
    """VALUES() of a long BIT has its bytes reversed."""
    weighs_without_end: Since = NEVER
    """WEIGHT_STRING leaves out spaces at the end."""

    # What a session can do at a target.

    takes_row_events: Since = ALWAYS
    """BINLOG applies row events; else it is understood, and does nothing."""
    no_row_events: ClassVar[str] = ""
    """Why not, for people."""
    row_event_variables: ClassVar[Mapping[str, str]]
    """What each variable has to be, where the server has it, for row events to mean what they say."""
    scans_once_for_events: Since = NEVER
    """A table without a key is read once for a row event of many rows."""
    returns_deleted_rows: Since = NEVER
    """DELETE .. RETURNING tells which rows it found."""
    may_lose_long_values: Since = NEVER
    """Without a key, an update in a row event may lose the change of a long value."""
    row_events_keep_stored: Since = NEVER
    """STORED columns have what the row event says; elsewhere the server computes them."""
    events_stop_time: Since = NEVER
    """After row events the session's time stands still, if the account may set it."""
    has_gtid_next: Since = NEVER
    rewrites_schemas: Since = NEVER
    """replicate_rewrite_db changes names in row events."""
    says_replica: Since = NEVER
    """Variables say replica, not slave."""
    skips_checks: Since = NEVER
    """check_constraint_checks: a session can write rows without a look at CHECKs."""
    has_set_statement: Since = NEVER
    """SET STATEMENT .. FOR gives one statement variables of its own; elsewhere a hint does."""
    hints_modes: Since = ALWAYS
    """A statement can have its own sql_mode."""
    hints_indexes: Since = ALWAYS
    """A DELETE takes the optimizer hint INDEX."""
    locks_by_name: Since = ALWAYS
    """GET_LOCK holds a lock as long as the session lives, and the list of sessions is of all that there are."""
    locks_shared: Since = ALWAYS
    """LOCK IN SHARE MODE waits for who writes the row."""
    ddl_is_a_job: Since = NEVER
    """A DDL goes on after its session has ended (ADMIN SHOW DDL JOBS)."""
    takes_local_data: Since = ALWAYS
    """What LOAD DATA makes of bytes is known."""
    adds_indexes_at_once: Since = ALWAYS
    """An index of a filled table is built faster than row by row."""
    joins_while_loading: Since = ALWAYS
    """Its tables may begin with the stream before the load has ended."""
    takes_replays: Since = ALWAYS
    """A replay into it was tried (`dm.tools.replay`)."""
    has_snapshots: Since = NEVER
    """A session may read the past (tidb_snapshot)."""
    reads_in_key_order: Since = ALWAYS
    """Without ORDER BY, rows come in the order of the key by which they are looked for."""
    has_engines: Since = ALWAYS
    """Tables may have engines that can't roll back."""
    settled: ClassVar[Mapping[str, str]] = _NOTHING
    """Variables that a `session` block does not change, with their values, where the server has them."""
