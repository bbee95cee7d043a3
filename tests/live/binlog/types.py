"""Every column type, with the values at which decoders go wrong."""

from __future__ import annotations

from dm.mysql.dialect import Flavor

_TIMES = (
    "'00:00:00'",
    "'-00:00:00.250'",
    "'-00:00:01'",
    "'838:59:59'",
    "'-838:59:59'",
    "'-837:59:59.000001'",
    "'12:34:56.789012'",
)
_DATETIMES = (
    "'0000-00-00'",
    "'1000-01-01'",
    "'2024-02-31 23:59:59.999999'",
    "'2024-00-00 01:02:03.4'",
    "'9999-12-31 23:59:59'",
    "'2024-06-07 08:09:10.123456'",
)
_STAMPS = (
    "'1970-01-01 00:00:01'",
    "'1970-01-01 00:00:00.999999'",  # for MySQL no moment yet
    "'2038-01-19 03:14:07'",
    "'2024-06-07 08:09:10.123456'",
    "'1999-12-31 23:59:59.99'",
)
_TEXTS = ("''", "'a'", "'it''s  '", "'\\0\\n\\\\'", "'äöü'", "REPEAT('x', 200)")
_BYTES = ("''", "x'00'", "x'0100'", "x'61006200'", "x'ffff'", "x'20'")
_MANY = ",".join(f"'m{number}'" for number in range(300))
_SET64 = ",".join(f"'s{number}'" for number in range(64))
_PRECISIONS = ((10, 0), (5, 2), (9, 9), (18, 9), (19, 10), (30, 30), (27, 3), (1, 0), (1, 1), (65, 0))
_DECIMALS = ("0", "-0.5", "1", "-1", "123456789.123456789", "-99999999999.999", "0.000000001")


def _column(value: str, definition: str) -> str:
    """A value of a column of that type."""
    return f"(SELECT v FROM JSON_TABLE('[\"{value}\"]', '$[*]' COLUMNS(v {definition} PATH '$')) t)"


_JSON = (
    "'null'",
    "'{}'",
    "'[]'",
    "'[1, -2, 3.5, true, false, null, \"x\"]'",
    "'{\"b\": 1, \"aa\": {\"c\": [1, [2, [3]]]}}'",
    "'{\"a\": \"\\\\u0000\\\\b\\\\f\\\\n\\\\r\\\\t\\\\\\\\\\\\\" ä\\\\u001f/\"}'",
    "'[65535, 65536, -32768, -32769, 4294967295, 4294967296, -2147483649, 9223372036854775807, 18446744073709551615]'",
    "'[1e0, 1e15, 123456789012345.0, 1e16, 1.5e-5, 1e-14, 1e-15, 1e-16, 1e20, 1.7976931348623157e308, 5e-324]'",
    "'[-0.0, 0.1, 100.0, 123.456, 1234567890123456789012, -1e-7, 99999999999999990.0]'",
    "JSON_ARRAY(CAST('2024-02-03' AS DATE), CAST('-01:02:03.5' AS TIME(6)))",
    "JSON_ARRAY(CAST('2024-02-03 04:05:06.7' AS DATETIME(6)), CAST('0000-00-00' AS DATETIME))",
    "JSON_ARRAY(CAST(1.50 AS DECIMAL(10,2)), CAST(-12345678901234567890.123 AS DECIMAL(30,3)))",
    "JSON_ARRAY(x'0102', CAST(REPEAT('z', 100) AS BINARY), b'101', 3.14e0, POINT(1, 2))",
    "JSON_ARRAY(CAST(5 AS UNSIGNED), CAST(70000 AS UNSIGNED))",
    "JSON_ARRAY(CAST(5000000000 AS SIGNED), CAST(5000000000 AS UNSIGNED))",
    "JSON_ARRAY(CAST(9e34 AS DECIMAL(65,30)), CAST(7 AS DECIMAL(30,0)), CAST('-838:59:59' AS TIME))",
    f"JSON_OBJECT('', {_column('513', 'BIT(10)')}, 'it''s', JSON_ARRAY({_column('18446744073709551615', 'BIT(64)')}))",
    f"JSON_ARRAY({_column('2024-02-03 04:05:06.7', 'TIMESTAMP(1)')}, {_column('x', 'BLOB')})",
    f"JSON_ARRAY({_column('ab', 'BINARY(4)')})",
    "JSON_ARRAY(x'', IFNULL(x'00', CAST('' AS BINARY(70000))), IFNULL(x'ff', REPEAT('x', 17000000)))",
    "JSON_EXTRACT(JSON_ARRAY(CAST(1.50 AS DECIMAL(5,3))), '$[0]')",
    "JSON_EXTRACT(JSON_ARRAY(x'ff00'), '$[0]')",
    "JSON_OBJECT('k', REPEAT('long ', 30000), 'l', JSON_ARRAY(REPEAT('y', 70000), 1, 2000000000))",
)  # fmt: skip

TYPES: dict[str, tuple[str, ...]] = {
    **{
        f"{name}{sign}": numbers
        for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
        for sign, numbers in (
            ("", ("0", "1", "-1", str(-(1 << bits - 1)), str((1 << bits - 1) - 1))),
            (" UNSIGNED", ("0", "1", str(1 << bits - 1), str((1 << bits) - 1))),
        )
    },
    "FLOAT": ("0", "1.1", "-1.1", "3.4e38", "1e-38", "1e-45", "16777217", "-0.0"),
    "DOUBLE": ("0", "1.1", "-1.1", "1.7976931348623157e308", "5e-324", "0.1", "-0e0"),
    "FLOAT UNSIGNED": ("0", "1.25"),
    "FLOAT(7,2)": ("0", "-12345.67", "0.01", "99999.99"),
    "DOUBLE(12,3)": ("0", "-123456789.123", "0.001"),
    "DECIMAL(65,30)": (
        "0",
        "-12345678901234567890123456789012345.123456789012345678901234567890",
        "0.000000000000000000000000000001",
        "9" * 35,
    ),
    **{f"DECIMAL({precision},{scale})": _DECIMALS for precision, scale in _PRECISIONS},
    **{f"BIT({bits})": ("0", "1", str((1 << bits) - 1), str(1 << bits - 1)) for bits in (1, 7, 8, 9, 10, 17, 63, 64)},
    "YEAR": ("0", "1901", "2155", "2024"),
    "DATE": ("'0000-00-00'", "'2024-02-31'", "'1000-01-01'", "'9999-12-31'", "'2024-00-00'"),
    **{f"TIME({digits})": _TIMES for digits in range(7)},
    **{f"DATETIME({digits})": _DATETIMES for digits in range(7)},
    **{f"TIMESTAMP({digits})": _STAMPS for digits in range(7)},
    "ENUM('a','b','ä')": ("'a'", "'ä'", "''", "2"),
    f"ENUM({_MANY})": ("'m0'", "'m254'", "'m255'", "'m299'"),
    "SET('x','y','z')": ("''", "'x'", "'x,z'", "7"),
    f"SET({_SET64})": ("''", "'s0'", "'s63'", "'s0,s32,s63'"),
    "SET('1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17')": ("'1,17'", "'9'"),
    "CHAR(1)": ("''", "'a'", "'ä'"),
    "CHAR(255) CHARACTER SET utf8mb4": _TEXTS,
    "CHAR(200) CHARACTER SET latin1": _TEXTS,
    "CHAR(10) CHARACTER SET utf16": ("'ä'", "''"),
    "CHAR(10) CHARACTER SET gbk": ("'中文'",),
    "VARCHAR(255) CHARACTER SET latin1": _TEXTS,
    "VARCHAR(256) CHARACTER SET latin1": _TEXTS,
    "VARCHAR(1000) CHARACTER SET utf8mb4": (*_TEXTS, "REPEAT('😀', 1000)"),
    "BINARY(8)": _BYTES,
    "BINARY(255)": _BYTES,
    "VARBINARY(10)": _BYTES,
    "VARBINARY(1000)": (*_BYTES, "REPEAT(x'00', 1000)"),
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB"), _BYTES),
    "LONGBLOB": (*_BYTES, "REPEAT(x'0d0a00', 100000)"),
    **{f"{name} CHARACTER SET utf8mb4": _TEXTS for name in ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")},
    "TEXT CHARACTER SET sjis": ("'カタカナ'",),
    "GEOMETRY": ("POINT(1, 2)", "ST_GeomFromText('LINESTRING(0 0, 1 1)')", "ST_GeomFromText('MULTIPOINT(1 2)')"),
    "POINT": ("POINT(1, 2)",),
    "POLYGON": ("ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))')",),
}  # fmt: skip
MYSQL_TYPES = {
    "JSON": _JSON,
    "VECTOR(3)": ("TO_VECTOR('[1,2,3]')", "TO_VECTOR('[-0.5,1e10,0]')"),
    "POINT SRID 4326": ("ST_SRID(POINT(1, 2), 4326)",),
    "CHAR(10) CHARACTER SET gb18030": ("'中文'",),
}
MARIADB_TYPES = {
    "DECIMAL(38,38)": _DECIMALS,
    "JSON": ("'{\"a\" :1}'",),
    "UUID": ("'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'"),
    "INET6": ("'::'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.0'"),
    "INET4": ("'0.0.0.0'", "'1.2.3.4'", "'255.255.255.0'"),
    "VARCHAR(200) COMPRESSED": ("''", "'short'", "REPEAT('long', 50)"),
    "BLOB COMPRESSED": ("''", "x'00'", "REPEAT(x'00ff', 10000)"),
    "LONGTEXT COMPRESSED": ("REPEAT('long', 100000)",),
}
CASES: list[tuple[Flavor, str, tuple[str, ...]]] = [
    *(("mysql", name, values) for name, values in {**TYPES, **MYSQL_TYPES}.items()),
    *(("mariadb", name, values) for name, values in {**TYPES, **MARIADB_TYPES}.items()),
]
