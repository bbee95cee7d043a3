"""Values as parts of keys: what the target treats as equal must be equal here, texts of every collation included.

The server decides which texts are one key: case, accents, contractions, ignorable characters, trailing spaces. Copying
its rules would copy the bugs of every version, so the server is asked: WEIGHT_STRING returns the bytes that it compares
(MySQL Reference Manual, "String Functions and Operators"). A round trip per value is too slow for the usual case, plain
ASCII, so each collation is examined once:

- The weights of the 95 printable ASCII characters are read one by one. Then two long strings are weighed which contain
  every pair of printable characters and every triple of letters (de Bruijn sequences). If the long weights are exactly
  the single weights in a row, ASCII text has no contraction and no ignored character: the collation is *proven*.
- If, moreover, two characters weigh the same only when they are one letter in two cases, ASCII text folds here to lower
  case without trailing spaces. The server weighs text with any other character, and its weights are read backwards. If
  all of them are weights of ASCII characters ("é" under an accent-insensitive collation), the result is that ASCII
  text, so both paths meet.
- If a collation has several levels (MySQL separates them by 0000), only the first counts: a coarser key. A key that is
  too coarse costs a conflict, never a wrong order. So case under a case-sensitive collation and trailing spaces under a
  NO PAD collation are ignored as well.
- MariaDB's collations with several levels don't separate them. Their accent- and case-insensitive sisters, which have
  one level, replace them: coarser again.
- For a collation that isn't proven (contractions) the server weighs every value. That is done for Unicode collations
  only: the weights of some old ones (cp1250_czech_cs) differ for texts that compare as equal, so there all values count
  as one key.
- MariaDB compares texts under `tis620_thai_nopad_ci` up to the first NUL, and weighs what follows all the same. There
  the weight ends at the NUL, too.
- Trailing spaces are removed from the weight, not from the text: an ignorable character may follow them.

The fold of a column turns a value into its part of a key. Two values that are equal in the target's column must have
equal parts, whichever shard they come from. So the part is computed as the *target's* type. If that can't be promised
(a conversion that rounds, cuts or reinterprets, a text collation with no server to ask), there is no fold, and the
caller treats all values of the column as one.

Numbers rely on Python's rule that equal numbers of different types hash alike: 5, 5.0 and Decimal("5.00") are one key,
and so are 0.0 and -0.0, as in the server.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cache
from typing import Final, Protocol

from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column, faithful
from dm.mysql.types.bytes import short_part
from dm.mysql.types.family import Fold

PRINTABLE: Final = bytes(range(0x20, 0x7F))
_LETTERS: Final = bytes(c for c in PRINTABLE if chr(c).isalpha())
_LEVEL_END: Final = b"\0\0"
_NUL: Final = b"\0"
_UP_TO_NUL: Final = frozenset({"tis620_thai_nopad_ci"})  # compared by strcmp

ASCII_CHARSETS: Final = frozenset(
    {
        "utf8mb4",
        "utf8mb3",
        "utf8",
        "ascii",
        "latin1",
        "latin2",
        "latin5",
        "latin7",
        "cp1250",
        "cp1251",
        "cp1256",
        "cp1257",
    }
    | {"cp850", "cp852", "cp866", "greek", "hebrew", "koi8r", "koi8u", "keybcs2", "macce", "macroman", "dec8", "hp8"}
    | {"armscii8", "geostd8", "tis620", "gbk", "gb2312", "gb18030", "big5", "euckr", "ujis", "eucjpms"}
)
"""Character sets in which the bytes 0x20 to 0x7E are the ASCII characters; a live test asks the servers for each."""

UTF8_CHARSETS: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})


class Weights(Protocol):
    """Asks the target server about texts."""

    def weigh(self, text: bytes, charset: str, collation: str, prefix: int | None) -> bytes | None:
        """The weight of the text, converted to the collation's character set and cut to `prefix` characters."""

    def convert(self, text: bytes, charset: str, into: str, prefix: int | None) -> bytes | None:
        """The text converted to another character set and cut to `prefix` characters."""

    def profile(self, collation: str) -> Profile | None:
        """What an examination proved about the collation; None if nothing."""


class Profile:
    """A proven collation: how weights read backwards as ASCII text."""

    __slots__ = ("_letters", "_space", "_unit", "_up_to_nul")

    def __init__(self, unit: int, letters: dict[bytes, int], *, up_to_nul: bool = False) -> None:
        self._unit = unit
        self._up_to_nul = up_to_nul
        self._letters = letters
        self._space = next(weight for weight, char in letters.items() if char == 0x20)

    def read(self, weight: bytes) -> bytes:
        """The folded form of a text of that weight."""
        unit, letters = self._unit, self._letters
        weight = _first_level(weight, unit)
        if self._up_to_nul:
            weight = weight.partition(_NUL)[0]
        text = bytearray()
        for at in range(0, len(weight), unit):
            char = letters.get(weight[at : at + unit])
            if char is None:
                while weight.endswith(self._space):
                    weight = weight[:-unit]
                return weight
            text.append(char)
        return bytes(text).rstrip(b" ")


def examine(weights: Weights, collation: str) -> Profile | None:
    """Prove that a collation weighs ASCII text character by character; None if it does not."""
    charset = collation.partition("_")[0]
    if charset not in ASCII_CHARSETS:
        return None
    single: dict[int, bytes] = {}
    for char in PRINTABLE:
        weight = weights.weigh(bytes((char,)), "ascii", collation, None)
        if not weight:
            return None
        single[char] = weight
    unit = 2 if any(_LEVEL_END in weight and len(weight) > 2 for weight in single.values()) else len(single[0x20])
    first = {char: _first_level(weight, unit) for char, weight in single.items()}
    if any(len(weight) != unit for weight in first.values()):
        return None
    letters: dict[bytes, int] = {}
    for char, weight in first.items():
        lower = bytes((char,)).lower()[0]
        if letters.setdefault(weight, lower) != lower:
            return None
    for sequence in (_de_bruijn(PRINTABLE, 2), _de_bruijn(_LETTERS, 3)):
        whole = weights.weigh(sequence, "ascii", collation, None)
        if whole is None or _first_level(whole, unit) != b"".join([first[char] for char in sequence]):
            return None
    return Profile(unit, letters, up_to_nul=collation in _UP_TO_NUL)


def coarser(collation: str) -> str:
    """A one-level collation that equates all that this one does: MariaDB's sisters by name."""
    if "_uca1400_" not in collation:
        return collation
    for levels in ("_as_cs", "_as_ci", "_ai_cs"):
        collation = collation.removesuffix(levels) + "_ai_ci" if collation.endswith(levels) else collation
    return collation


def stripper(weights: Weights, collation: str) -> Callable[[bytes], bytes] | None:
    """How to remove trailing spaces from a weight; None if that is unknown."""
    space = weights.weigh(b" ", "ascii", collation, None)
    if space is None:
        return None
    if _LEVEL_END in space and len(space) > 2:  # MySQL's collations of several levels are all NO PAD
        return bytes
    unit = len(space)
    if unit != 2:
        return None

    def strip(weight: bytes) -> bytes:
        end = len(weight)
        while end >= unit and weight[end - unit : end] == space:
            end -= unit
        return weight[:end]

    return strip


def fold_ascii(text: bytes, prefix: int | None) -> bytes | None:
    """The folded form of printable ASCII text under any proven collation; None for other text."""
    if text.translate(None, PRINTABLE):
        return None
    return text[:prefix].rstrip(b" ").lower()


def _first_level(weight: bytes, unit: int) -> bytes:
    if unit != 2 or _LEVEL_END not in weight:
        return weight
    for at in range(0, len(weight), 2):
        if weight[at : at + 2] == _LEVEL_END:
            return weight[:at]
    return weight


@cache
def _de_bruijn(alphabet: bytes, order: int) -> bytes:
    """A text with every sequence of `order` characters of the alphabet (by joining Lyndon words)."""

    def lyndon() -> Iterator[int]:
        word = [-1]
        while word:
            word[-1] += 1
            if order % len(word) == 0:
                yield from word
            length = len(word)
            while len(word) < order:
                word.append(word[-length])
            while word and word[-1] == len(alphabet) - 1:
                word.pop()

    text = bytes(alphabet[at] for at in lyndon())
    return text + text[: order - 1]


_MULTI_BYTE: Final = frozenset({"gbk", "gb2312", "gb18030", "big5", "euckr", "ujis", "eucjpms"})


def fold_for(source: Column, target: Column, prefix: int | None, weights: Weights | None) -> Fold | None:
    """How values of a source column become parts of a target key; None if no fold can be promised."""
    if not faithful(source, target):
        return None
    if not source.type.is_text:
        return source.type.fold(source, target, prefix)
    if source.charset == "binary" or target.charset == "binary":
        return None
    return _text_fold(source, target, prefix, weights)


def _text_fold(source: Column, target: Column, prefix: int | None, weights: Weights | None) -> Fold | None:
    of, to, collation = source.charset or "", target.charset or "", target.collation or ""
    if collation.endswith("_bin"):
        return _binary_text_fold(of, to, prefix, weights)
    if weights is None or not collation:
        return None
    if of not in ASCII_CHARSETS:
        return None
    collation = coarser(collation)
    profile = weights.profile(collation)
    ask = weights
    if profile is None:
        strip = stripper(weights, collation) if to in UTF8_CHARSETS else None
        return None if strip is None else _weighed(of, collation, prefix, weights, strip)
    read = profile.read

    def fold(value: Value) -> Hashable:
        if not isinstance(value, bytes):
            return value
        part = fold_ascii(value, prefix)
        if part is None:
            part = read(ask.weigh(value, of, collation, prefix) or b"")
        return short_part(part)

    return fold


def _weighed(of: str, collation: str, prefix: int | None, weights: Weights, strip: Callable[[bytes], bytes]) -> Fold:
    def fold(value: Value) -> Hashable:
        if not isinstance(value, bytes):
            return value
        return short_part(strip(weights.weigh(value, of, collation, prefix) or b""))

    return fold


def _binary_text_fold(of: str, to: str, prefix: int | None, weights: Weights | None) -> Fold | None:
    """Under a _bin collation equal text is equal bytes, except for trailing spaces, which PAD SPACE ignores."""
    if to not in ASCII_CHARSETS or of not in ASCII_CHARSETS:
        return None
    convertible = of == to or {of, to} <= UTF8_CHARSETS
    cut_as_utf8 = convertible and to in UTF8_CHARSETS
    cut_as_bytes = convertible and to not in UTF8_CHARSETS | _MULTI_BYTE
    ask = weights
    if ask is None and not convertible:
        return None
    if ask is None and prefix is not None and not (cut_as_utf8 or cut_as_bytes):
        return None

    def fold(value: Value) -> Hashable:
        if not isinstance(value, bytes):
            return value
        if value.isascii() or (prefix is None and convertible) or cut_as_bytes:
            part: bytes = value[:prefix]
        elif cut_as_utf8:
            part = value.decode("utf-8", "surrogateescape")[:prefix].encode("utf-8", "surrogateescape")
        else:
            assert ask is not None
            part = ask.convert(value, of, to, prefix) or b""
        return short_part(part.rstrip(b" "))

    return fold
