"""What the session for DDL is set to, statement by statement; the target is a connection that writes it down."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.dialect import Flavor, dialect, flavor_of
from dm.syncer.ddl.session import DdlSession
from tests.unit.sourcelog.upstream.test_address import MARIADB, MYSQL


class _Target:
    """Takes statements; refuses once what it is told to."""

    alive = True

    def __init__(self, flavor: Flavor, *, version: int = 90704, version_text: str = "") -> None:
        self.flavor: Flavor = flavor_of(version_text) if version_text else flavor
        self.dialect = dialect(self.flavor, version)
        self.version, self.version_text = version, version_text
        self.sent: list[str] = []
        self.sets: list[dict[str, object]] = []
        self.settings: dict[str, object] = {}  # under which the last statement of the source ran
        self._state: dict[str, object] = {}
        self.refusal = ""

    def query(self, sql: str) -> list[tuple[str | int, ...]]:
        if "full_collation_name" in sql:
            return [(33, "utf8mb3_general_ci"), (45, "utf8mb4_general_ci"), (2308, "utf8mb4_uca1400_nopad_ai_ci")]
        if sql.startswith("SELECT id, collation_name"):
            return [(45, "utf8mb4_general_ci"), (46, "utf8mb4_bin"), (47, "latin1_bin"), (255, "utf8mb4_0900_ai_ci")]
        return [("utf8mb4_general_ci", "utf8mb4_bin", "CET", 1)]

    def execute(self, sql: str | bytes, values: list[object] | None = None) -> int:
        text = sql.decode() if isinstance(sql, bytes) else sql
        if values:
            names = [part.split(" = ")[0].removeprefix("SESSION ") for part in text[4:].split(", SESSION ")]
            self.sets.append(dict(zip(names, values, strict=True)))
            self._state |= self.sets[-1]
        else:
            self.sent.append(text)
            if text.startswith("SET SESSION collation_connection = "):
                self._state["collation_connection"] = text.rpartition(" ")[2]
        if isinstance(sql, bytes):
            self.settings = dict(self._state)
        if isinstance(sql, bytes) and self.refusal:
            refusal, self.refusal = self.refusal, ""
            raise DMError("statement-failed", role="target", statement=text, cause=refusal)
        return 0


def _session(target: _Target, *, flavor: Flavor = "mysql", zone: str = "CET") -> DdlSession:
    facts = replace(MYSQL if flavor == "mysql" else MARIADB, system_time_zone=zone, version=101119)
    return DdlSession(cast("TargetConnection", target), facts, lambda seconds: True)


def _query(**session: object) -> Query:
    return Query("d", b"", QuerySession(**session), 1700000000, 0, 0, 0)  # type: ignore[arg-type]


def test_the_variables_of_the_event_are_set() -> None:
    target = _Target("mysql")
    session = {
        "sql_mode": 1 | 4 | 1 << 21 | 1 << 25 | 1 << 30,  # strictness is left out
        "charset": (8, 8, 8),
        "time_zone": "+03:00",
        "auto_increment": (3, 2),
        "lc_time_names": 4,
        "flags2": 1 << 26,
        "microseconds": 5,
        "explicit_defaults_for_timestamp": False,
        "default_collation_for_utf8mb4": 45,
    }
    _session(target).execute("CREATE DATABASE e", _query(**session))
    assert target.settings == {
        "sql_mode": "REAL_AS_FLOAT,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION",
        "timestamp": "1700000000.000005",
        "time_zone": "+03:00",
        "auto_increment_increment": 3,
        "auto_increment_offset": 2,
        "lc_time_names": 4,
        "collation_connection": 8,
        "collation_server": 8,
        "foreign_key_checks": 0,
        "explicit_defaults_for_timestamp": 0,
        "default_collation_for_utf8mb4": 45,
    }
    assert target.sent == ["CREATE DATABASE e", "SET SESSION collation_connection = utf8mb4_general_ci"]


def test_nothing_of_the_statement_before_stays() -> None:
    target = _Target("mysql")
    session = _session(target)
    before = _query(charset=(8, 8, 8), time_zone="+03:00", auto_increment=(3, 2), flags2=1 << 26)
    session.execute("CREATE DATABASE e", before)
    session.execute("CREATE TABLE t (a INT)", _query())
    told = ("time_zone", "auto_increment_offset", "collation_server", "foreign_key_checks")
    assert [target.settings[name] for name in told] == ["+00:00", 1, "utf8mb4_bin", 1]
    assert target.settings["collation_connection"] == "utf8mb4_general_ci"


def test_only_what_differs_is_set() -> None:
    target = _Target("mysql")
    session, utf8mb4 = _session(target), _query(charset=(255, 255, 255), time_zone="+03:00")
    for query in (utf8mb4, utf8mb4, replace(utf8mb4, timestamp=1700000001), _query(charset=(45, 45, 45))):
        session.execute("CREATE TABLE t (a INT)", query)
    changed = {"collation_connection": 45, "time_zone": "+00:00", "timestamp": "1700000000.000000"}
    assert target.sets[1:] == [{"timestamp": "1700000001.000000"}, changed]
    assert target.sent == ["CREATE TABLE t (a INT)"] * 4


def test_a_collation_of_the_other_flavour_s_numbers_is_not_set() -> None:
    target = _Target("mariadb")
    _session(target).execute("CREATE DATABASE e", _query(charset=(255, 255, 255), default_collation_for_utf8mb4=255))
    assert target.settings["collation_server"] == "utf8mb4_bin"
    assert "default_collation_for_utf8mb4" not in target.settings


@pytest.mark.parametrize(
    ("source", "bits", "target", "modes"),
    [
        ("mysql", 0, _Target("mariadb", version=101119), "TIME_ROUND_FRACTIONAL"),
        ("mysql", 1 << 32, _Target("mariadb", version=101119), ""),
        ("mysql", 0, _Target("mariadb", version=100338), ""),  # it has no such mode
        ("mariadb", 0, _Target("mysql"), "TIME_TRUNCATE_FRACTIONAL"),
        ("mariadb", 1 << 34 | 1 << 32, _Target("mysql"), ""),
        ("mariadb", 0, _Target("mysql", version_text="8.0.11-TiDB-v7.5.0"), ""),
        ("mysql", 1 << 32, _Target("mysql", version_text="8.0.11-TiDB-v7.5.0"), ""),
        ("mysql", 1 << 32, _Target("mysql"), "TIME_TRUNCATE_FRACTIONAL"),
        ("mariadb", 1 << 34, _Target("mariadb"), "TIME_ROUND_FRACTIONAL"),
    ],
)
def test_fractions_are_rounded_where_the_source_rounds_them(
    source: Flavor, bits: int, target: _Target, modes: str
) -> None:
    _session(target, flavor=source).execute("CREATE TABLE t (a INT)", _query(sql_mode=bits))
    assert target.settings["sql_mode"] == modes


@pytest.mark.parametrize(
    ("zone", "set_to"), [("CET", "SYSTEM"), ("UTC", "+00:00"), ("EST", "SYSTEM, EST at the source")]
)
def test_the_system_s_time_zone_is_the_source_s(zone: str, set_to: str) -> None:
    target = _Target("mysql")
    _session(target, zone=zone).execute("CREATE TABLE t (a INT)", _query(time_zone="SYSTEM"))
    assert target.settings["time_zone"] == set_to


def test_mariadb_tells_about_timestamps_by_a_flag_and_the_target_is_told_of_changes() -> None:
    target = _Target("mariadb", version=101119)
    session, told = _session(target, flavor="mariadb"), []
    for flags in (1 << 24, 0, 0, 1 << 24):
        session.execute("CREATE TABLE t (a TIMESTAMP)", _query(flags2=flags))
        told.append(target.settings.get("explicit_defaults_for_timestamp"))
    assert told == [None, 0, 0, 1]


def test_a_tidb_is_not_told_about_timestamps() -> None:
    target = _Target("mysql", version_text="8.0.11-TiDB-v7.5.0")
    session = _session(target)
    session.execute("CREATE TABLE t (a TIMESTAMP)", _query(explicit_defaults_for_timestamp=False))
    assert session.context.explicit_defaults_for_timestamp
    assert "explicit_defaults_for_timestamp" not in target.settings  # read-only there: 1238


def test_what_a_character_set_stands_for_is_the_session_s_of_the_source() -> None:
    target = _Target("mariadb", version=110802)
    session, told = _session(target, flavor="mariadb"), []
    for pairs in (((33, 33), (45, 2308)), (), None):  # None: not used, or of a server without the variable
        session.execute("CREATE TABLE t (a CHAR(3)) CHARSET utf8mb4", _query(charset_collations=pairs))
        told.append(target.settings["character_set_collations"])
    assert told == ["utf8mb3=utf8mb3_general_ci,utf8mb4=utf8mb4_uca1400_nopad_ai_ci", "", ""]
    with pytest.raises(DMError, match="collation 2309, which the target does not have"):
        session.execute("CREATE TABLE t (a CHAR(3)) CHARSET utf8mb4", _query(charset_collations=((45, 2309),)))


def test_only_between_servers_that_have_it_is_it_set() -> None:
    for source, target in (
        ("mysql", _Target("mariadb", version=110802)),
        ("mariadb", _Target("mariadb", version=110101)),
    ):
        _session(target, flavor=cast("Flavor", source)).execute("CREATE TABLE t (a INT)", _query())
        assert "character_set_collations" not in target.settings


@pytest.mark.parametrize(("version", "text"), [(50744, "5.7.44"), (50725, "5.7.25-TiDB-v7.1.0")])
def test_what_the_target_does_not_have_is_not_set(version: int, text: str) -> None:
    target = _Target("mysql", version=version, version_text=text)
    _session(target).execute("CREATE TABLE t (a INT)", _query(default_collation_for_utf8mb4=45, charset=(8, 8, 8)))
    assert "default_collation_for_utf8mb4" not in target.settings
    assert (target.settings["collation_connection"] == 8) is ("TiDB" not in text)
    assert ("lc_time_names" in target.settings) is ("TiDB" not in text)


def test_tidb_is_told_collations_by_their_names() -> None:
    target = _Target("mysql", version=80011, version_text="8.0.11-TiDB-v8.5.0")
    session = _session(target)
    session.execute("CREATE DATABASE d", _query(default_collation_for_utf8mb4=255, charset=(45, 47, 255)))
    assert target.settings["default_collation_for_utf8mb4"] == "utf8mb4_0900_ai_ci"
    assert target.settings["collation_connection"] == "latin1_bin"
    assert target.settings["collation_server"] == "utf8mb4_0900_ai_ci"
    assert target.sent[-1] == "SET SESSION collation_connection = utf8mb4_general_ci"  # ours are no longer read as ours


def test_what_tidb_does_not_have_stays_its_own() -> None:
    target = _Target("mysql", version=80011, version_text="8.0.11-TiDB-v8.5.0")
    _session(target).execute("CREATE DATABASE d", _query(charset=(45, 8, 8)))  # latin1_swedish_ci
    assert target.settings["collation_connection"] == "utf8mb4_general_ci"
    assert target.settings["collation_server"] == "utf8mb4_bin"


def test_a_source_before_8_0_11_means_another_default_of_utf8mb4() -> None:
    target = _Target("mysql", version=80011, version_text="8.0.11-TiDB-v8.5.0")
    facts = replace(MYSQL, version=50744)
    session = DdlSession(cast("TargetConnection", target), facts, lambda seconds: True)
    session.execute("CREATE TABLE t (a CHAR(3)) CHARSET utf8mb4", _query())
    assert target.settings["default_collation_for_utf8mb4"] == "utf8mb4_general_ci"


def test_what_is_refused_for_foreign_keys_runs_without_checks() -> None:
    target = _Target("mysql")
    session = _session(target)
    target.refusal = "1824 Failed to open the referenced table 'p'"
    session.execute("CREATE TABLE t (a INT)", _query(flags2=0))
    assert target.sent == ["CREATE TABLE t (a INT)", "CREATE TABLE t (a INT)"]
    assert target.sets[1:] == [{"foreign_key_checks": 0}]
    session.execute("CREATE TABLE t (a INT)", _query(flags2=0))
    assert target.settings["foreign_key_checks"] == 1
    target.refusal = "1064 no"
    with pytest.raises(DMError, match="refused"):
        _session(target).execute("CREATE TABLE t (a INT)", _query(flags2=0))


def test_a_literal_in_another_character_set_s_bytes_pauses() -> None:
    target = _Target("mysql")
    session = _session(target)
    statement = "CREATE TABLE t (a CHAR(3) DEFAULT _latin1'\xe9')"
    session.execute(statement, _query(charset=(45, 45, 45)))
    session.execute("CREATE TABLE t (`\xe9` CHAR(3) DEFAULT '\xe9')", _query(charset=(8, 8, 8)))
    with pytest.raises(DMError, match="after _latin1 is in latin1"):
        session.execute(statement, _query(charset=(8, 8, 8)))


CUT_OFF = "ALTER TABLE t ADD COLUMN a DATETIME NOT NULL DEFAULT '2020-01-01 10:00:00.7', ADD b INT"
WHOLE = (
    "ALTER TABLE t ADD COLUMN a DATETIME(1) DEFAULT '2020-01-01 10:00:00.700', ADD b VARCHAR(30) DEFAULT '10:00:00.7'"
)


@pytest.mark.parametrize(
    ("flavor", "mode", "there", "refused"),
    [
        ("mariadb", 0, (80011, "8.0.11-TiDB-v8.5.0"), True),
        ("mariadb", 1 << 34, (80011, "8.0.11-TiDB-v8.5.0"), False),
        ("mysql", 0, (80011, "8.0.11-TiDB-v8.5.0"), False),
        ("mysql", 1 << 32, (80011, "8.0.11-TiDB-v8.5.0"), True),
        ("mariadb", 0, (50744, "5.7.44"), True),
        ("mariadb", 1 << 34, (50744, "5.7.44"), False),
        ("mysql", 0, (50744, "5.7.44"), False),
        ("mariadb", 0, (80000, "8.0.0"), False),  # it has the mode
        ("mysql", 0, (100338, "10.3.38-MariaDB"), True),
        ("mysql", 1 << 32, (100338, "10.3.38-MariaDB"), False),
        ("mysql", 0, (100401, "10.4.1-MariaDB"), False),
    ],
)
def test_a_fraction_that_the_target_can_only_take_otherwise_is_refused(
    flavor: Flavor, mode: int, there: tuple[int, str], refused: bool
) -> None:
    target = _Target("mysql", version=there[0], version_text=there[1])
    session = _session(target, flavor=flavor)
    session.execute(WHOLE, _query(sql_mode=mode))
    if refused:
        with pytest.raises(DMError) as caught:
            session.execute(CUT_OFF, _query(sql_mode=mode))
        assert caught.value.name == "ddl-values-differ"
        assert target.sent == [WHOLE]
    else:
        session.execute(CUT_OFF, _query(sql_mode=mode))
        assert target.sent == [WHOLE, CUT_OFF]
