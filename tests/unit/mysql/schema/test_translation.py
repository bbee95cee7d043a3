"""`collation-map` and `engine-map`: which words of a statement become others, and that no other word does."""

from __future__ import annotations

import pytest

from dm.mysql.schema.charset import Collated
from dm.mysql.schema.translation import Translation, nearest, with_inherited_charset
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece

MYSQL = SourceContext("mysql", 90700, "d", server_collation="utf8mb4_0900_ai_ci")
MARIADB = SourceContext("mariadb", 101119, "d")
OLD_MARIADB = SourceContext("mariadb", 100622, "d")
NONE = Translation()
MAPPED = Translation.of(
    {"utf8mb4_0900_ai_ci": "utf8mb4_unicode_520_ci", "latin1_swedish_ci": "latin1_bin"},
    {"MyISAM": "InnoDB", "Aria": "InnoDB", "HEAP": "RocksDB"},
)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "CREATE TABLE t (a CHAR(3) COLLATE utf8mb4_0900_ai_ci, b INT) DEFAULT CHARSET=utf8mb4"
            " COLLATE=utf8mb4_0900_ai_ci COMMENT='COLLATE utf8mb4_0900_ai_ci'",
            "CREATE TABLE t (a CHAR(3) COLLATE utf8mb4_unicode_520_ci, b INT) DEFAULT CHARSET=utf8mb4"
            " COLLATE=utf8mb4_unicode_520_ci COMMENT='COLLATE utf8mb4_0900_ai_ci'",
        ),
        (
            "CREATE TABLE t (a CHAR(9), b CHAR(9) AS (lower(a COLLATE 'utf8mb4_0900_ai_ci')),"
            " CHECK (a COLLATE UTF8MB4_0900_AI_CI <> 'x'))",
            "CREATE TABLE t (a CHAR(9), b CHAR(9) AS (lower(a COLLATE utf8mb4_unicode_520_ci)),"
            " CHECK (a COLLATE utf8mb4_unicode_520_ci <> 'x'))",
        ),
        (
            "CREATE TABLE t (a CHAR(3) CHARSET utf8mb4,"
            " b CHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin) CHARSET utf8mb4",
            "CREATE TABLE t (a CHAR(3) CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci,"
            " b CHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin) CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
        ),
        (
            "ALTER TABLE t ADD a CHAR(3) CHARSET latin1 AFTER b, CONVERT TO CHARACTER SET utf8mb4",
            "ALTER TABLE t ADD a CHAR(3) CHARSET latin1 COLLATE latin1_bin AFTER b,"
            " CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
        ),
        ("ALTER TABLE t ADD `collate` CHAR(3) CHARSET binary, ADD c CHAR(3) CHARACTER SET utf8mb4 BINARY", None),
        ("CREATE DATABASE e", "CREATE DATABASE e CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci"),
        ("CREATE DATABASE e COLLATE utf8mb4_bin", None),
        ("CREATE DATABASE e CHARSET utf8mb4", "CREATE DATABASE e CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci"),
        ("ALTER DATABASE e COLLATE = utf8mb4_0900_ai_ci", "ALTER DATABASE e COLLATE = utf8mb4_unicode_520_ci"),
        ("CREATE TABLE u LIKE t", None),
        ("DROP TABLE t", None),
        ("CREATE TABLE t (engine INT) ENGINE=MyISAM", "CREATE TABLE t (engine INT) ENGINE=InnoDB"),
        ("CREATE TABLE t (a INT) ENGINE = memory", "CREATE TABLE t (a INT) ENGINE = RocksDB"),
        ("CREATE TABLE t (a INT) ENGINE = CSV", None),
        ("CREATE TABLE t (a INT) COMMENT 'ENGINE=MyISAM'", None),
        (
            "CREATE TABLE t (a INT) ENGINE=MyISAM ROW_FORMAT=FIXED PACK_KEYS=1",
            "CREATE TABLE t (a INT) ENGINE=InnoDB ROW_FORMAT=DEFAULT PACK_KEYS=1",
        ),
        ("ALTER TABLE t ENGINE MyISAM", "ALTER TABLE t ENGINE InnoDB"),
    ],
)
def test_names_of_the_maps_become_others(statement: str, expected: str | None) -> None:
    assert MAPPED.piece(Piece.of(statement, MYSQL), OLD_MARIADB).text == (expected or statement)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "CREATE TABLE t (a INT) ENGINE=Aria, TRANSACTIONAL=0, PAGE_CHECKSUM=1 ROW_FORMAT=PAGE",
            "CREATE TABLE t (a INT) ENGINE=InnoDB ROW_FORMAT=DEFAULT",
        ),
        (
            "CREATE TABLE t (a INT) ENGINE=MyISAM PARTITION BY HASH (a) (PARTITION p ENGINE = MyISAM)",
            "CREATE TABLE t (a INT) ENGINE=InnoDB PARTITION BY HASH (a) (PARTITION p ENGINE = InnoDB)",
        ),
        ("CREATE TABLE t (a INT) TRANSACTIONAL=1", None),
    ],
)
def test_options_that_only_the_old_engine_has_go(statement: str, expected: str | None) -> None:
    translated = MAPPED.piece(Piece.of(statement, MARIADB), MARIADB).text
    assert " ".join(translated.split()) == (expected or statement)


@pytest.mark.parametrize(
    ("source", "target", "name", "expected"),
    [
        (MYSQL, MARIADB, "utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"),
        (MYSQL, MARIADB, "utf8mb4_0900_as_cs", "utf8mb4_uca1400_nopad_as_cs"),
        (MYSQL, MARIADB, "utf8mb4_0900_bin", "utf8mb4_nopad_bin"),
        (MYSQL, MARIADB, "utf8mb4_ja_0900_as_cs", "utf8mb4_ja_0900_as_cs"),
        (MYSQL, OLD_MARIADB, "utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci"),
        (MYSQL, MYSQL, "utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci"),
        (MARIADB, MYSQL, "utf8mb4_uca1400_ai_ci", "utf8mb4_0900_ai_ci"),
        (MARIADB, MYSQL, "utf8mb4_uca1400_ai_cs", "utf8mb4_uca1400_ai_cs"),
        (MARIADB, MARIADB, "utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_ai_ci"),
    ],
)
def test_the_same_order_under_another_name_needs_no_map(
    source: SourceContext, target: SourceContext, name: str, expected: str
) -> None:
    assert NONE.collation(name, source, target) == expected


def test_a_map_has_the_last_word() -> None:
    kept = Translation.of({"utf8mb4_0900_ai_ci": "utf8mb4_0900_ai_ci"}, {})
    assert kept.collation("utf8mb4_0900_ai_ci", MYSQL, MARIADB) == "utf8mb4_0900_ai_ci"
    aliased = Translation.of({"utf8_general_ci": "utf8mb3_bin"}, {})
    assert aliased.collation("utf8_general_ci", MYSQL, MARIADB) == "utf8mb3_bin"


@pytest.mark.parametrize("engine", ["MyISAM", "MEMORY", "heap", "`Aria`", "CSV", "InnoDB"])
def test_engines_that_cannot_roll_back_need_no_map_and_a_map_has_the_last_word(engine: str) -> None:
    piece = Piece.of(f"CREATE TABLE t (a INT) ENGINE={engine}", MARIADB)
    mapped = "CREATE TABLE t (a INT) ENGINE=InnoDB"
    assert Translation.of({}, {}).piece(piece, MARIADB).text == (piece.text if engine == "CSV" else mapped)
    said = Translation.of({}, {"myisam": "MyISAM", "Heap": "MEMORY", "Aria": "Aria", "CSV": "InnoDB"})
    kept = {"heap": "MEMORY", "CSV": "InnoDB"}.get(engine, engine)
    assert said.piece(piece, MARIADB).text == f"CREATE TABLE t (a INT) ENGINE={kept}"


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("utf8mb4_general_ci", "CREATE TABLE t (a CHAR(3)) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_nopad_ai_ci"),
        ("utf8mb4_uca1400_nopad_ai_ci", "CREATE TABLE t (a CHAR(3))"),
    ],
)
def test_the_default_of_a_schema_becomes_another_one_too(there: str, expected: str) -> None:
    piece = Piece.of("CREATE TABLE t (a CHAR(3))", MYSQL)
    ours = Collated("utf8mb4", "utf8mb4_0900_ai_ci")
    found = with_inherited_charset(piece, ours, Collated("utf8mb4", there), MARIADB, strict=False, translation=NONE)
    assert found.text == expected


@pytest.mark.parametrize(
    ("collation", "known", "expected"),
    [
        ("utf8mb4_ja_0900_as_cs", {"utf8mb4_bin", "utf8mb4_uca1400_nopad_as_cs"}, "utf8mb4_uca1400_nopad_as_cs"),
        ("utf8mb4_0900_ai_ci", {"utf8mb4_unicode_520_nopad_ci", "utf8mb4_bin"}, "utf8mb4_unicode_520_nopad_ci"),
        ("utf8mb4_0900_ai_ci", {"utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci"}, "utf8mb4_unicode_520_ci"),
        ("utf8mb4_uca1400_ai_cs", {"utf8mb4_0900_as_cs", "utf8mb4_bin"}, "utf8mb4_bin"),
        ("utf8mb4_nopad_bin", {"utf8mb4_bin"}, "utf8mb4_bin"),
        ("cp850_nopad_bin", {"utf8mb4_bin"}, None),
    ],
)
def test_what_is_proposed_is_near(collation: str, known: set[str], expected: str | None) -> None:
    assert nearest(collation, known) == expected
