"""Character sets and their default collations, as both servers have them (information_schema.CHARACTER_SETS)."""

from __future__ import annotations

from typing import Final, NamedTuple

from dm.mysql.dialect import Flavor, dialect
from dm.mysql.sql.context import SourceContext

# Those other than `<charset>_general_ci`.
_DEFAULTS: Final = {
    "big5": "big5_chinese_ci",
    "binary": "binary",
    "cp932": "cp932_japanese_ci",
    "dec8": "dec8_swedish_ci",
    "eucjpms": "eucjpms_japanese_ci",
    "euckr": "euckr_korean_ci",
    "gb18030": "gb18030_chinese_ci",
    "gb2312": "gb2312_chinese_ci",
    "gbk": "gbk_chinese_ci",
    "hp8": "hp8_english_ci",
    "latin1": "latin1_swedish_ci",
    "latin5": "latin5_turkish_ci",
    "sjis": "sjis_japanese_ci",
    "swe7": "swe7_swedish_ci",
    "tis620": "tis620_thai_ci",
    "ujis": "ujis_japanese_ci",
}
_UNICODE: Final = frozenset({"ucs2", "utf16", "utf32", "utf8mb3", "utf8mb4"})


class Collated(NamedTuple):
    """A character set and a collation of it."""

    charset: str
    collation: str


# For a schema of unknown character set: structures hold None for it, and it equals any (dm.mysql.schema.normal).
UNKNOWN: Final = Collated("", "")


def collations_query(flavor: Flavor, version: int) -> str:
    """The question for all collations of a server: number and full name."""
    if dialect(flavor, version).tells_any_collation:
        return "SELECT id, full_collation_name FROM information_schema.collation_character_set_applicability"
    return "SELECT id, collation_name FROM information_schema.collations"


def charset_name(name: str, context: SourceContext) -> str:
    """The name a server gives to a character set; `utf8` is an alias of utf8mb3 or, in MariaDB, of utf8mb4."""
    lowered = name.lower()
    return context.utf8 if lowered == "utf8" else lowered


def utf8mb3_name(name: str) -> str:
    """A stored character set or collation by the name that it has since MySQL 8.0.30 and MariaDB 10.6."""
    return f"utf8mb3{name[4:]}" if name == "utf8" or name.startswith("utf8_") else name


def default_collation(charset: str, context: SourceContext) -> str:
    """The collation of a character set when none is named."""
    if context.charset_collations is not None:  # others keep the server's built-in collation
        return dict(context.charset_collations).get(charset) or _DEFAULTS.get(charset, f"{charset}_general_ci")
    if charset == "utf8mb4":
        if context.utf8mb4_collation is not None:
            return context.utf8mb4_collation
        # MySQL changed it in 8.0 (Reference Manual, "The utf8mb4 Character Set").
        if context.dialect.utf8mb4_is_0900:
            return "utf8mb4_0900_ai_ci"
    if charset in _UNICODE and context.dialect.unicode_is_uca1400:
        return f"{charset}_uca1400_ai_ci"
    return _DEFAULTS.get(charset, f"{charset}_general_ci")


def collated(charset: str | None, collation: str | None, inherited: Collated, context: SourceContext) -> Collated:
    """A column, table or schema that may name a character set, a collation, both, or neither."""
    if collation is not None:
        named = collation.lower()
        if named == "binary":
            return Collated("binary", "binary")
        if named.startswith("uca1400_"):  # MariaDB: a collation of any character set
            owner = charset_name(charset, context) if charset is not None else inherited.charset
            return Collated(owner, f"{owner}_{named}")
        if named.startswith("utf8_"):
            named = f"{context.utf8}_{named[5:]}"
        return Collated(named.split("_", 1)[0], named)
    if charset is not None and charset.lower() != "default":
        name = charset_name(charset, context)
        return Collated(name, default_collation(name, context))
    return inherited


def binary_collation(charset: str) -> str:
    """The collation that the attribute BINARY means for a character column."""
    return "binary" if charset == "binary" else f"{charset}_bin"
