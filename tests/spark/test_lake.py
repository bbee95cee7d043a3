"""A dump is a table for Spark: every type, and what no type holds is said."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.dump_files import save_plan
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.spark.session import SparkProvider
from dm.tools import lake
from tests.spark.conftest import LoadFactory
from tests.spark.test_fidelity import LENIENT

pytestmark = [pytest.mark.live, pytest.mark.spark]

PAGE = Path(__file__).parents[2] / "docs" / "lake.md"

TYPES = (
    LENIENT,
    "CREATE TABLE `every ``type.` (id BIGINT UNSIGNED PRIMARY KEY, t TINYINT UNSIGNED ZEROFILL, s SMALLINT UNSIGNED,"
    " m MEDIUMINT, i INT UNSIGNED, b BIGINT, d DECIMAL(38,10), big DECIMAL(65,30), f FLOAT, g DOUBLE, y YEAR,"
    " b1 BIT(1), b64 BIT(64), da DATE, ti TIME(6), dt DATETIME(3), ts TIMESTAMP(6) NULL,"
    " c CHAR(5) CHARACTER SET latin1, v VARCHAR(20) CHARACTER SET gbk, u VARCHAR(9) CHARACTER SET utf16,"
    " x TEXT CHARACTER SET utf8mb4, bi BINARY(3),"
    " bl BLOB, e ENUM('a','ü') CHARACTER SET latin1, ee ENUM('','x') NOT NULL, se SET('p','q'), es SET('','x','z'),"
    " j JSON, `a.b``c` INT, n INT GENERATED ALWAYS AS (m + 1) VIRTUAL)",
    "INSERT INTO `every ``type.` (id, t, s, m, i, b, d, big, f, g, y, b1, b64, da, ti, dt, ts, c, v, u, x, bi, bl, e,"
    " ee, se, es, j, `a.b``c`) VALUES"
    " (18446744073709551615, 7, 65535, -8388608, 4294967295, -9223372036854775808, 1234567890.0123456789,"
    " 0.000000000000000000000000000001, 16777217, 1.7976931348623157e308, 2155, 1, ~0, '2024-02-29',"
    " '-838:59:58.999999', '9999-12-31 23:59:59.999', '2038-01-19 03:14:07.999999', 'é€', '中文', '😀', 'x\\'😀',"
    " x'00ff00', x'', 'ü', 'x', 'p,q', ',z', '{\"a\": 1.0}', 3),"
    " (1, 0, 0, 0, 0, 0, -0.1, 0, 0, 0, 1901, 0, 0, '0000-00-00', '00:00:00.000001', '2024-02-30 01:02:03.5',"
    " '0000-00-00 00:00:00', '', '', '', '', x'', x'', 'a', '', '', '', 'null', 0)",
    "INSERT INTO `every ``type.` (id, ee) VALUES (2, 'x')",
)


@pytest.mark.ci_flavor("mysql")
def test_every_type_is_typed_and_what_no_calendar_has_is_flagged(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    load = full_load(upstream, target, *TYPES, rows=2, mode="dump")
    load.dump()
    (name,) = lake.tables(load.directory)
    assert name == f"{load.schema}.every `type."
    session = spark.session()
    frame = lake.table(session, load.directory, name)
    assert dict(frame.dtypes) == {
        "id": "decimal(20,0)", "t": "smallint", "s": "int", "m": "int", "i": "bigint", "b": "bigint",
        "d": "decimal(38,10)", "big": "string", "f": "float", "g": "double", "y": "smallint", "b1": "bigint",
        "b64": "decimal(20,0)", "da": "date", "da__invalid": "boolean", "ti": "interval day to second",
        "dt": "timestamp_ntz", "dt__invalid": "boolean", "ts": "timestamp", "ts__invalid": "boolean", "c": "string",
        "v": "string", "v__invalid": "boolean", "u": "string", "u__invalid": "boolean", "x": "string", "bi": "binary",
        "bl": "binary", "e": "string", "ee": "string", "se": "string", "es": "string", "j": "string", "a.b`c": "int",
    }  # fmt: skip
    found: dict[int, dict[str, Any]] = {int(row["id"]): row.asDict() for row in frame.collect()}
    full = found[18446744073709551615]
    assert (full["t"], full["s"], full["m"], full["i"]) == (7, 65535, -8388608, 4294967295)
    assert (full["b"], full["d"]) == (-9223372036854775808, Decimal("1234567890.0123456789"))
    assert full["big"] == "0.000000000000000000000000000001"
    assert (full["f"], full["g"], full["y"]) == (16777216.0, 1.7976931348623157e308, 2155)
    assert (full["b1"], full["b64"]) == (1, Decimal(18446744073709551615))
    assert (full["da"], full["dt"]) == (date(2024, 2, 29), datetime(9999, 12, 31, 23, 59, 59, 999000))  # noqa: DTZ001
    moment = datetime(2038, 1, 19, 3, 14, 7, 999999, UTC)
    assert full["ts"] == moment.astimezone().replace(tzinfo=None)  # as Spark hands an instant to Python
    assert full["ti"] == -timedelta(hours=838, minutes=59, seconds=58, microseconds=999999)
    assert (full["c"], full["v"], full["u"], full["x"]) == ("é€", "中文", "😀", "x'😀")
    assert (bytes(full["bi"]), bytes(full["bl"])) == (b"\x00\xff\x00", b"")
    assert (full["e"], full["ee"], full["se"], full["es"], full["a.b`c"]) == ("ü", "x", "p,q", ",z", 3)
    assert full["j"] == '{"a": 1.0}'
    assert [full[f"{column}__invalid"] for column in ("da", "dt", "ts")] == [False] * 3
    zero = found[1]
    assert [zero[column] for column in ("da", "dt", "ts")] == [None] * 3
    assert [zero[f"{column}__invalid"] for column in ("da", "dt", "ts")] == [True] * 3
    assert (zero["ti"], zero["d"], zero["ee"], zero["es"]) == (timedelta(microseconds=1), Decimal("-0.1"), "", "")
    nothing = found[2]
    assert all(value is None for key, value in nothing.items() if key not in ("id", "ee") and "__" not in key)
    assert not any(row[f"{column}__invalid"] for row in (full, zero, nothing) for column in ("v", "u"))
    assert not any(nothing[f"{column}__invalid"] for column in ("da", "dt", "ts"))


def test_the_example_of_the_page_runs(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    load = full_load(
        mariadb,
        mariadb,
        LENIENT,
        "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10,2), placed DATE)",
        "INSERT INTO orders VALUES (1, 7, 9.50, '2026-01-31'), (2, 7, 0.50, '0000-00-00'), (3, 8, 1.25, '2026-02-01')",
        mode="dump",
    )
    load.dump()
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    text = code.replace("/shared/dump", str(load.directory)).replace("shop.orders", f"{load.schema}.orders")
    assert text.count(str(load.directory)) == 1
    assert text.count(load.schema) == 1
    exec(compile(text, str(PAGE), "exec"), {"spark": spark.session()})
    printed = capsys.readouterr().out
    assert "|       7|10.00|" in printed
    assert "1 order without a date" in printed
    with pytest.raises(DMError) as caught:
        lake.table(spark.session(), load.directory, "shop.nothing")
    assert caught.value.name == "lake-table-unknown"
    with pytest.raises(DMError) as caught:
        lake.tables(load.directory.parent)
    assert caught.value.name == "lake-dump-missing"


def test_a_name_is_no_pattern(mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider) -> None:
    names = ["t[12]", "t1", "t{1,2}", "t2", "a b%41#c", "aA"]
    statements = [f"CREATE TABLE `{name}` AS SELECT '{name}' AS own" for name in names]
    load = full_load(mariadb, mariadb, *statements, mode="dump")
    load.dump()
    for name in names:
        found = lake.table(spark.session(), load.directory, f"{load.schema}.{name}").collect()
        assert [row["own"] for row in found] == [name]


def damage(path: Path) -> None:
    """Another bit in the middle of a chunk's rows."""
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 1
    path.write_bytes(data)


def test_a_dump_is_read_whole_or_not_at_all(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    numbers = ", ".join(f"({number}, md5({number}))" for number in range(400))
    statements = ("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", f"INSERT INTO t VALUES {numbers}")
    load = full_load(mariadb, mariadb, *statements, rows=200, mode="dump")
    plan, name = load.dump(), f"{load.schema}.t"
    session = spark.session()

    def refused() -> DMError:
        with pytest.raises(DMError) as caught:
            lake.table(session, load.directory, name)
        return caught.value

    first, second, _ = (load.directory / plan.tables[0].file_name(chunk) for chunk in range(3))
    damage(first)
    with pytest.raises(Exception, match=re.escape(first.name)):
        lake.table(session, load.directory, name).collect()
    damage(first)
    assert lake.table(session, load.directory, name).count() == 400
    kept = second.read_bytes()
    second.write_bytes(kept[:-1])
    assert refused().name == "dump-file-damaged"
    second.unlink()
    assert "it is missing" in str(refused())
    save_plan(load.storage, replace(plan, p1=None))
    assert refused().name == "lake-dump-unfinished"

    sql = replace(load, settings=load.settings | {"dump_format": "sql"}, directory=load.directory.with_name("sql"))
    sql.dump()
    with pytest.raises(DMError) as caught:
        lake.tables(sql.directory)
    assert caught.value.name == "lake-dump-sql"
