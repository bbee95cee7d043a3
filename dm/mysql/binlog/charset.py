"""Character sets by their collation numbers in the binlog, and texts in them.

The numbers are the servers' (information_schema.collations, MySQL 9.7 and MariaDB 10.11). MariaDB gave its NO PAD
variants the number of the padding collation plus 1024, and its UCA 14.0.0 collations blocks of 256 from 2048 up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final

from dm.errors import DMError

_IDS: Final[dict[str, tuple[int | tuple[int, int], ...]]] = {
    "big5": (1, 84),
    "latin2": (2, 9, 21, 27, 77),
    "dec8": (3, 69),
    "cp850": (4, 80),
    "latin1": (5, 8, 15, 31, (47, 49), 94),
    "hp8": (6, 72),
    "koi8r": (7, 74),
    "swe7": (10, 82),
    "ascii": (11, 65),
    "ujis": (12, 91),
    "sjis": (13, 88),
    "cp1251": (14, 23, (50, 52)),
    "hebrew": (16, 71),
    "tis620": (18, 89),
    "euckr": (19, 85),
    "latin7": (20, 41, 42, 79),
    "koi8u": (22, 75),
    "gb2312": (24, 86),
    "greek": (25, 70),
    "cp1250": (26, 34, 44, 66, 99),
    "gbk": (28, 87),
    "cp1257": (29, 58, 59),
    "latin5": (30, 78),
    "armscii8": (32, 64),
    "utf8mb3": (33, 76, 83, (192, 215), 223, (576, 578)),
    "ucs2": (35, 90, (128, 151), 159, (640, 642)),
    "cp866": (36, 68),
    "keybcs2": (37, 73),
    "macce": (38, 43),
    "macroman": (39, 53),
    "cp852": (40, 81),
    "utf8mb4": (45, 46, (224, 247), (255, 323), (608, 610)),
    "utf16": (54, 55, (101, 124), (672, 674)),
    "utf16le": (56, 62),
    "cp1256": (57, 67),
    "utf32": (60, 61, (160, 183), (736, 738)),
    "binary": (63,),
    "geostd8": (92, 93),
    "cp932": (95, 96),
    "eucjpms": (97, 98),
    "gb18030": ((248, 250),),
}
_UCA1400: Final = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")  # blocks of 256 from 2048 up
_MAX_BYTES: Final = {
    "big5": 2, "ujis": 3, "sjis": 2, "euckr": 2, "gb2312": 2, "gbk": 2, "utf8mb3": 3, "utf8mb4": 4, "ucs2": 2,
    "utf16": 4, "utf16le": 4, "utf32": 4, "cp932": 2, "eucjpms": 3, "gb18030": 4,
}  # fmt: skip
_CODECS: Final = {
    "big5": "big5", "latin2": "iso8859-2", "cp850": "cp850", "hp8": "hp-roman8", "koi8r": "koi8-r",
    "ascii": "ascii", "ujis": "euc_jp", "sjis": "shift_jis", "cp1251": "cp1251", "hebrew": "iso8859-8",
    "tis620": "tis-620", "euckr": "cp949", "latin7": "iso8859-13", "koi8u": "koi8-u", "gb2312": "gb2312",
    "greek": "iso8859-7", "cp1250": "cp1250", "gbk": "gbk", "cp1257": "cp1257", "latin5": "iso8859-9",
    "utf8mb3": "utf-8", "ucs2": "utf-16-be", "cp866": "cp866", "macce": "mac-latin2", "macroman": "mac-roman",
    "cp852": "cp852", "utf8mb4": "utf-8", "utf16": "utf-16-be", "utf16le": "utf-16-le", "cp1256": "cp1256",
    "utf32": "utf-32-be", "binary": "utf-8", "cp932": "cp932", "eucjpms": "euc_jp", "gb18030": "gb18030",
}  # fmt: skip
_SYNONYMS: Final = {"utf8": "utf8mb3"}

_BY_ID: Final[dict[int, str]] = {}
for _charset, _ranges in _IDS.items():
    for _item in _ranges:
        _first, _last = _item if isinstance(_item, tuple) else (_item, _item)
        _BY_ID.update(dict.fromkeys(range(_first, _last + 1), _charset))

# Where the servers' tables differ from Python's codec, as runs of characters from a code on. Found with all codes of
# MySQL 9.7 and MariaDB 10.11, converted to utf8mb4 by the server; both have the same tables. U+FFFD means no character.
_RUNS: Final[Mapping[str, Mapping[str, str]]] = {
    "big5": {
        "a15a": "\ufffd", "a1c3": "\ufffd", "a1c5": "\ufffd", "a1fe": "\ufffd", "a240": "\ufffd", "a2cc": "\ufffd",
        "a2ce": "\ufffd", "f9d6": "碁銹裏墻恒粧嫺",
    },
    "cp1256": {
        "8a": "\ufffd", "8f": "\ufffd", "98": "\ufffd", "9a": "\ufffd", "9f": "\ufffd", "aa": "\ufffd", "c0": "\ufffd",
        "ff": "\ufffd",
    },
    "cp866": {"fc": "ⁿ²"},
    "eucjpms": {
        "8fa2b7": "～", "8fa2c3": "￤", "8ff3f3": "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡ",
        "8ff4a1":
            "ⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤\ufa0e咊坙\ufa0f\ufa10增寬峵嵓\ufa11德悅愠敎昻晥\ufa12\uf929栁"
            "\ufa13\ufa14橫櫢淸淲瀨\ufa15\ufa16甁皂皞\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d綠緖\ufa1e荢\ufa1f"
            "薰\ufa20\ufa21蠇\ufa22譿賴赶\ufa23\ufa24\ufa25郞\ufa26鄕\ufa27\ufa28閒\uf9dc\ufa29霻靍靑\ufa2a\ufa2b"
            "\ufa2c馞髙魲\ufa2d黑",
        "a1c1": "～∥", "a1dd": "－", "a1f1": "￠￡", "a2cc": "￢",
        "ada1": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ", "adc0": "㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡",
        "addf": "㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪",
    },
    "gb18030": {"a8bc": "ḿ", "8135f437": "\ue7c7"},
    "greek": {"a1": "ʽʼ", "a4": "\ufffd\ufffd", "aa": "\ufffd"},
    "hebrew": {"af": "‾"},
    "koi8u": {"95": "•"},
    "sjis": {"815f": "\\"},
    "ujis": {"a1c0": "\\"},
}  # fmt: skip
# The bytes of one character in multi-byte character sets.
_CHARACTERS: Final = {
    "big5": rb"[\xa1-\xf9].|.", "sjis": rb"[\x81-\x9f\xe0-\xfc].|.", "ujis": rb"\x8f..|[\x8e\xa1-\xfe].|.",
    "eucjpms": rb"\x8f..|[\x8e\xa1-\xfe].|.", "gb18030": rb"[\x81-\xfe][0-9]..|[\x81-\xfe].|.",
}  # fmt: skip

# The server's latin1 is Windows-1252, with the five holes of that code page filled by the C1 controls of the same value
# (MySQL Reference Manual, "West European Character Sets").
LATIN1: Final = {code: bytes([code]).decode("cp1252", "ignore") or chr(code) for code in range(0x80, 0xA0)}


def charset_of(collation: int) -> str | None:
    """The character set of a collation number; None for an unknown number."""
    if 2048 <= collation < 2048 + 256 * len(_UCA1400):
        return _UCA1400[(collation - 2048) // 256]
    known = _BY_ID.get(collation)
    return known if known is not None or not 1024 <= collation < 2048 else _BY_ID.get(collation - 1024)


def max_bytes(charset: str | None) -> int:
    """How many bytes a character takes at most; None: bytes."""
    return _MAX_BYTES.get(_SYNONYMS.get(charset or "", charset or ""), 1)


def same_charset(one: str, other: str) -> bool:
    """Whether two names mean one character set."""
    return _SYNONYMS.get(one, one) == _SYNONYMS.get(other, other)


def codec_of(charset: str) -> str | None:
    """Python's name for a character set; None if Python has no equal one."""
    return _CODECS.get(_SYNONYMS.get(charset, charset))


def _differences(charset: str) -> dict[bytes, str]:
    """The codes where Python's character differs from the server's; empty if there are none."""
    found: dict[bytes, str] = {}
    for first, characters in _RUNS.get(charset, {}).items():
        for step, character in enumerate(characters):
            code = int(first, 16) + step
            found[code.to_bytes(len(first) // 2, "big")] = "" if character == "\ufffd" else character
    if charset in ("ujis", "eucjpms"):  # ten rows of two bytes and ten of three are for private use
        rows = [prefix + bytes([row]) for prefix in (b"", b"\x8f") for row in range(0xF5, 0xFF)]
        codes = [row + bytes([cell]) for row in rows for cell in range(0xA1, 0xFF)]
        found |= {code: chr(0xE000 + place) for place, code in enumerate(codes)}
    return found


def _any_of(codes: Iterable[bytes]) -> bytes:
    """A pattern of these codes; alternatives by the thousand would be slow."""
    last: dict[bytes, bytes] = {}
    for code in codes:
        last[code[:-1]] = last.get(code[:-1], b"") + re.escape(code[-1:])
    return b"|".join(re.escape(before) + b"[" + each + b"]" for before, each in last.items())


@cache
def decoder_of(charset: str) -> Callable[[bytes], str | None] | None:
    """A decoder from a character set's bytes to text, or None for invalid bytes; None if there is no decoder."""
    # Functions inside a function are pickled as a whole: Spark's workers may lack this package.
    if charset == "latin1":
        holes = dict(LATIN1)
        return lambda value: value.decode("latin-1").translate(holes)
    codec = codec_of(charset)
    if codec is None:
        return None

    def decoded(value: bytes) -> str | None:
        try:
            return value.decode(codec)
        except UnicodeDecodeError:
            return None

    if charset == "ucs2":  # characters of two bytes each: halves of a larger one stay halves

        def decoded_narrow(value: bytes) -> str | None:
            text = decoded(value)
            return None if text is None or max(text, default="") > "\uffff" else text

        return decoded_narrow
    differences = _differences(charset)
    if not differences:
        return decoded
    seldom = re.compile(_any_of(differences), re.DOTALL)
    characters = re.compile(_CHARACTERS.get(charset, b"."), re.DOTALL)

    def decoded_singly(value: bytes) -> str | None:
        if seldom.search(value) is None:  # the pattern may match the end of one character and the start of the next
            return decoded(value)
        texts = [differences[each] if each in differences else decoded(each) for each in characters.findall(value)]
        return "".join(text for text in texts if text) if all(texts) else None

    return decoded_singly


def decode_text(raw: bytes, collation: int | None) -> str:
    """A statement's text by its client's collation; raises DMError when it is invalid."""
    if raw.isascii() and (collation is None or collation not in _OTHERWISE):
        return raw.decode("ascii")
    charset = "utf8mb4" if collation is None else charset_of(collation) or f"of collation {collation}"
    decode = decoder_of(charset)
    if decode is None:
        raise DMError("statement-undecodable", charset=charset, cause="no codec knows this character set")
    text = decode(raw)
    if text is None:
        raise DMError("statement-undecodable", charset=charset)
    return text


# Bytes of ASCII are other characters in these, as both servers say of all their character sets. A client may have swe7
# (`dm.mysql.binlog.query`); with one of the others an event is damaged.
_OTHERWISE: Final = frozenset(
    number for number, charset in _BY_ID.items() if charset in ("swe7", "ucs2", "utf16", "utf16le", "utf32")
)
