"""All code points a character set has, and texts that collations treat in odd ways, with the server's opinion on each.

The server is asked in bulk: one query per collation gives the weight of every text and its rank in the collation's
order, where equal texts share a rank. The folds under test ask their questions of these answers, not one by one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache

from dm.changes.collation import Profile, Weights, coarser
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.ident import Ident

UTF8 = "utf8mb4"
_CHUNK = 4000

_LETTERS = "aAáåÅæbcCčdDđeEéfgGhHiIİıjJkKlLłmnNñoOöøpqrRřsSšßẞtTuUüvVwxyYzZžœ"
_TRIPLES = "cdghjlnrsyz"  # Hungarian dzs, ddz, ggy, nny, ssz, zzs; Albanian, Croatian, Slovak, Spanish, Welsh pairs
_ENDS = [" ", "  ", "\t", "\0", "\u00a0", "\u00ad", "\u200b", "\u200d", "\u3000", "\ufeff", "\ufe0f"]
_MARKS = ["\u0300", "\u0301", "\u0306", "\u0308", "\u030a", "\u030c", "\u0323", "\u0327", "\u0335", "\u0345"]
_SCRIPTS = [
    *("か\u3099", "が", "カ", "ガ", "ｶﾞ", "ｶ", "か", "カー", "カア", "かあ", "ｶｰ", "ハ\u309a", "パ", "ぱ", "ゝ", "かか"),
    *("ッ", "ツ", "っ", "つ", "ｯ", "ー", "アー", "㍿", "株式会社", "㌀", "アパート", "\u309f", "より"),
    *("\uac00", "\u1100\u1161", "\uac01", "\u1100\u1161\u11a8", "\u3131", "\u1100", "\uffa1", "한글", "ㄱㅏ"),
    *("เก", "กเ", "แข", "ขแ", "ไทย", "ทไย", "ກເ", "ເກ", "\u0e4d\u0e32", "\u0e33"),
    *("\u0fb2\u0f71\u0f80", "\u0f76\u0f71", "\u0f77", "\u0f71\u0f72", "\u0f73", "क्ष", "क\u093c", "\u0958", "কৎ"),
    *("и\u0306", "й", "Й", "е\u0308", "ё", "Ё", "є", "ґ", "г", "дж", "Дж", "љ", "lj", "Lj", "LJ", "\u01c7"),
    *("dz", "DZ", "Dz", "\u01f1", "\u01f2", "\u01f3", "dž", "\u01c4", "\u01c5", "\u01c6", "ij", "\u0132", "\u0133"),
    *("ﬁ", "fi", "ﬀ", "ff", "ﬃ", "ffi", "ﬆ", "st", "ſ", "ſs", "ŉ", "ʼn", "K", "Å", "Ω", "Ω", "µ", "μ"),
    *("½", "1/2", "1⁄2", "①", "1", "１", "Ⅳ", "IV", "ⅳ", "㎏", "kg", "℃", "°C", "…", "...", "№", "No", "™", "TM"),
    *("א\u05b7", "\ufb2e", "א", "\u0644\u0627", "\ufefb", "\u0623", "\u0627\u0654", "ة", "ه", "ك", "ک", "ي", "ی"),
    *("❤", "❤\ufe0f", "👍", "👍🏽", "👨\u200d👩", "🇩🇪", "\U0001d400", "A", "\U0001d7ce", "0"),
    *("\U00020000", "\U0002f800", "\u01c8", "\u01c9", "かゝ"),
    *("a\u0308\u0323", "a\u0323\u0308", "ạ\u0308", "\u01d5", "Ü\u0304", "U\u0308\u0304", "\u1ea4", "Â\u0301"),
    *("ı\u0307", "i\u0307", "İ", "ss", "SS", "sS", "sz", "th", "þ"),
    *("", " ", "   ", "\0", "\u200b", "\u00ad", "aa", "AA", "Aa", "ae", "AE", "oe", "ue"),
]  # fmt: skip


def code_points() -> list[str]:
    """All of the BMP, one in 61 of the others, and the texts above."""
    points = [chr(point) for point in range(0x10000) if not 0xD800 <= point < 0xE000]
    points += [chr(point) for point in range(0x10000, 0x110000, 61)]
    texts = [a + b for a, b in itertools.product(_LETTERS, repeat=2)]
    texts += ["".join(letters) for letters in itertools.product(_TRIPLES, repeat=3)]
    texts += ["".join(letters).capitalize() for letters in itertools.product(_TRIPLES, repeat=2)]
    texts += [letter + end for letter in _LETTERS for end in _ENDS] + [end + "a" for end in _ENDS]
    texts += [letter + mark for letter in _LETTERS for mark in _MARKS]
    texts += [f"{a}{end}b" for a in "aß" for end in _ENDS]
    return list(dict.fromkeys([*points, *texts, *_SCRIPTS, *(text + " " for text in _SCRIPTS)]))


class CharacterSetTable:
    """A table of the texts that a character set can hold; each in UTF-8 and in the character set."""

    def __init__(self, connection: TargetConnection, schema: str, charset: str, texts: Sequence[str]) -> None:
        self.charset = charset
        self._connection = connection
        self._name = f"{Ident(schema).sql}.{Ident('texts_' + charset).sql}"
        connection.execute("SET SESSION sql_mode = ''")
        connection.execute(
            f"CREATE TABLE {self._name} (n INT PRIMARY KEY, u VARBINARY(32), b VARBINARY(64),"
            f" t VARCHAR(12) CHARACTER SET {charset})"
        )
        rows = list(enumerate(text.encode() for text in texts))
        for start in range(0, len(rows), _CHUNK):
            values = ",".join(f"({n},{_literal(text)})" for n, text in rows[start : start + _CHUNK])
            connection.execute(f"INSERT INTO {self._name} (n, u) VALUES {values}")
        connection.execute(f"UPDATE {self._name} SET t = CONVERT(CONVERT(u USING {UTF8}) USING {charset})")
        connection.execute(f"UPDATE {self._name} SET b = CAST(t AS BINARY)")
        connection.execute(
            f"DELETE FROM {self._name} WHERE t IS NULL OR NOT CAST(CONVERT(t USING {UTF8}) AS BINARY) <=> u"
        )
        self.texts = {int(n): (bytes(u), bytes(b)) for n, u, b in connection.query(f"SELECT n, u, b FROM {self._name}")}

    def opinions(self, collation: str) -> dict[int, tuple[bytes, int]]:
        """By number of the text: its weight, and its rank in the collation's order."""
        text = f"t COLLATE {Ident(collation).sql}"
        return {
            int(n): (bytes(weight or b""), int(rank))
            for n, weight, rank in self._connection.query(
                f"SELECT n, WEIGHT_STRING({text}), DENSE_RANK() OVER (ORDER BY {text}) FROM {self._name}"
            )
        }

    def drop(self) -> None:
        """Remove the table."""
        self._connection.execute(f"DROP TABLE {self._name}")


class BulkWeights(Weights):
    """The server's weights of one table's texts, asked once per collation; other questions go to the server itself."""

    def __init__(self, table: CharacterSetTable, server: ServerWeights) -> None:
        self._table = table
        self._server = server
        self._of = lru_cache(maxsize=3)(self._load)

    def _load(self, collation: str) -> dict[tuple[str, bytes], bytes]:
        opinions = self._table.opinions(collation)
        answers: dict[tuple[str, bytes], bytes] = {}
        for n, (u, b) in self._table.texts.items():
            answers[UTF8, u] = answers[self._table.charset, b] = opinions[n][0]
        return answers

    def weigh(self, text: bytes, charset: str, collation: str, prefix: int | None) -> bytes | None:
        """As the server would say."""
        found = self._of(collation).get((charset, text)) if prefix is None else None
        return self._server.weigh(text, charset, collation, prefix) if found is None else found

    def convert(self, text: bytes, charset: str, into: str, prefix: int | None) -> bytes | None:
        """From UTF-8 into the table's character set as the table has it."""
        return self._server.convert(text, charset, into, prefix)

    def profile(self, collation: str) -> Profile | None:
        """Examined by the server."""
        return self._server.profile(collation)

    def disagreements(self, collation: str, chance: random.Random, count: int) -> Iterator[bytes]:
        """Of so many texts those to which the server itself gives another weight than in bulk."""
        answers = self._of(coarser(collation))
        for charset, text in chance.sample(sorted(answers), min(count, len(answers))):
            if self._server.weigh(text, charset, coarser(collation), None) != answers[charset, text]:
                yield text


def collations(connection: TargetConnection) -> list[tuple[str, str]]:
    """Every (collation, character set) of the server."""
    name = "FULL_COLLATION_NAME" if connection.flavor == "mariadb" else "COLLATION_NAME"
    rows = connection.query(
        f"SELECT {name}, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        f" WHERE {name} IS NOT NULL AND CHARACTER_SET_NAME <> 'binary' ORDER BY CHARACTER_SET_NAME, {name}"
    )
    return [(str(collation), str(charset)) for collation, charset in rows]


def _literal(text: bytes) -> str:
    return "0x" + text.hex() if text else "''"
