"""An expression that a server evaluates: its text, and what that text says of columns, of the moment, of time zones.

The text is sent as it stands, so two things must be certain before: that it ends where its parentheses end, and that
only the row and the event's moment decide about its result. So it is cut into tokens here, by the rules of a session
without NO_BACKSLASH_ESCAPES and ANSI_QUOTES, which is how it is evaluated, and every word must be known: a keyword of
expressions, a function of the list below, or else the name of a column. What can't be seen this way (subqueries,
variables, comments, functions of the user's own) has no token or no word here.

The grammar itself is the server's. It is asked before the task starts, in `check-task`.

The words are a list of what is allowed, not of what is forbidden: a function that nobody thought of is refused, since a
filter that gives another result the next time would lose rows. What one of the two flavours lacks is listed all the
same; the target itself is asked about that before the task starts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlglot.expressions import Expression


_TOKEN: Final = re.compile(
    r"(?P<space>[ \t\r\n\v\f]+)"
    r"|(?P<comment>/\*|\*/|\#|--(?=[\x00-\x20\x7f]|\Z))"
    r"|(?P<string>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<name>`(?:[^`]|``)+`)"
    r"|(?P<number>(?:0x[0-9a-fA-F]+|0b[01]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![0-9A-Za-z_$\x80-\U0010ffff]))"
    r"|(?P<word>[0-9A-Za-z_$\x80-\U0010ffff]+)"
    r"|(?P<symbol>[-+*/%=<>!&|^~(),])",
    re.DOTALL,
)
_WHY_NOT: Final = {
    ".": "a column is named without its table",
    "@": "variables are not supported",
    ":": "variables are not supported",
    "?": "there is nothing that would be put in place of `?`",
    ";": "it is not one expression",
}
_LITERALS: Final = ("x", "b", "n")  # x'41', b'01', n'text'
_BEFORE_CHARSETS: Final = ("collate", "using", "charset")


@dataclass(frozen=True, slots=True)
class ServerExpression:
    """An expression with what its text says; names are in lower case."""

    text: str
    columns: frozenset[str]
    perhaps: frozenset[str]  # keywords that may be columns
    zoned: bool  # a function of it depends on the session's time zone


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.text.lower() if self.kind in ("word", "symbol") else ""


@lru_cache(maxsize=1024)
def read_server_expression(text: str) -> ServerExpression:
    """What a server may be asked; raises ExpressionError."""
    one_expression(text)
    tokens = _tokens(text)
    columns, perhaps, zoned = set[str](), set[str](), False
    for number, token in enumerate(tokens):
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        called = following is not None and following.text == "("
        if token.kind == "name":
            if called:
                raise ExpressionError(f"{token.text} is a function of your own, which may give another result later")
            columns.add(token.text[1:-1].replace("``", "`").lower())
        elif token.kind == "word" and not _is_no_column(tokens, number, following):
            word = token.lower
            _demand_known(token, called=called)
            zoned = zoned or (word in ZONED_FUNCTIONS and (called or word in MOMENT_WORDS))
            if not called and word in KEYWORDS:
                perhaps.add(word)
            elif not called and word not in MOMENT_WORDS:
                columns.add(word)
    _demand_closed(tokens)
    return ServerExpression(text, frozenset(columns), frozenset(perhaps - columns), zoned)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            why = _WHY_NOT.get(text[at], f"`{text[at]}` has no place in an expression")
            raise ExpressionError(f"{why}: {text[max(0, at - 20) : at + 20]}")
        kind = match.lastgroup or ""
        if kind == "comment":
            raise ExpressionError("a comment: servers of different versions read it in different ways")
        if kind != "space":
            found.append(_Token(kind, match[0], at, match.end()))
        at = match.end()
    return found


def _is_no_column(tokens: Sequence[_Token], number: int, following: _Token | None) -> bool:
    """Whether the word belongs to a literal, or names a character set or a collation."""
    token = tokens[number]
    if following is not None:
        glued = following.kind == "string" and following.start == token.end
        introduced = following.kind in ("string", "number") or following.lower in _LITERALS
        if (glued and token.lower in _LITERALS) or (introduced and token.text.startswith("_")):
            return True
    before = [each.lower for each in tokens[max(0, number - 2) : number]]
    return bool(before) and (before[-1] in _BEFORE_CHARSETS or before == ["character", "set"])


def _demand_known(token: _Token, *, called: bool) -> None:
    word = token.lower
    if called:
        if word in FUNCTIONS or word in BEFORE_PARENTHESES or word.startswith(FUNCTION_FAMILIES):
            return
        why = WHY_REFUSED.get(word, "is not among the functions that are known to give the same result each time")
        raise ExpressionError(f"{token.text.upper()}() {why}")
    if word in REFUSED_WORDS:
        raise ExpressionError(f"{token.text.upper()} {WHY_REFUSED.get(word, 'has no place in an expression')}")


def _demand_closed(tokens: Sequence[_Token]) -> None:
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text if token.kind == "symbol" else "", 0)
        if depth < 0:
            break
    if depth:
        raise ExpressionError("its parentheses don't match")


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


MOMENT_FUNCTIONS: Final = _words(
    "now current_timestamp localtime localtimestamp curdate current_date curtime current_time",
    "utc_date utc_time utc_timestamp",
)
"""The present moment, which is that of the event; those that may stand without parentheses are `MOMENT_WORDS`."""
MOMENT_WORDS: Final = MOMENT_FUNCTIONS - {"now", "curdate", "curtime"}
ZONED_FUNCTIONS: Final = frozenset(word for word in MOMENT_FUNCTIONS if not word.startswith("utc_")) | {
    "from_unixtime",
    "unix_timestamp",
}
"""Functions whose result the session's time zone decides as well."""

_NUMBERS: Final = _words(
    "abs acos asin atan atan2 bit_count ceil ceiling conv cos cot crc32 degrees exp floor ln log log10 log2 mod pi pow",
    "power radians round sign sin sqrt tan truncate",
)
_CHOICES: Final = _words("coalesce greatest if ifnull interval isnull least nullif nvl nvl2")
_TEXTS: Final = _words(
    "ascii bin bit_length char char_length character_length chr concat concat_ws elt export_set field find_in_set",
    "format from_base64 hex insert instr lcase left length lengthb locate lower lpad ltrim make_set mid oct",
    "octet_length ord position quote regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse",
    "right rpad rtrim soundex space strcmp substr substring substring_index to_base64 trim ucase unhex upper",
    "weight_string md5 sha sha1 sha2 is_uuid uuid_to_bin bin_to_uuid",
    "inet_aton inet_ntoa inet6_aton inet6_ntoa is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6",
)
_MOMENTS: Final = _words(
    "adddate addtime add_months convert_tz date date_add date_format date_sub datediff day dayname dayofmonth",
    "dayofweek dayofyear extract from_days from_unixtime get_format hour last_day makedate maketime microsecond minute",
    "month monthname period_add period_diff quarter sec_to_time second str_to_date subdate subtime time time_format",
    "time_to_sec timediff timestamp timestampadd timestampdiff to_days to_seconds unix_timestamp week weekday",
    "weekofyear year yearweek",
)
_JSON: Final = _words(
    "json_array json_array_append json_array_insert json_compact json_contains json_contains_path json_depth",
    "json_detailed json_equals json_exists json_extract json_insert json_keys json_length json_loose json_merge",
    "json_merge_patch json_merge_preserve json_normalize json_object json_overlaps json_pretty json_query json_quote",
    "json_remove json_replace json_schema_valid json_search json_set json_type json_unquote json_valid json_value",
)
FUNCTIONS: Final = MOMENT_FUNCTIONS | _NUMBERS | _CHOICES | _TEXTS | _MOMENTS | _JSON | _words("cast convert row")
FUNCTION_FAMILIES: Final = ("st_", "mbr")
"""All functions whose names begin so: those on geometries."""

_UNITS: Final = _words(
    "microsecond second minute hour day week month quarter year",
    "second_microsecond minute_microsecond minute_second hour_microsecond hour_second hour_minute day_microsecond",
    "day_second day_minute day_hour year_month",
)
_TYPES: Final = _words(
    "signed unsigned integer int decimal dec float double real precision binary char nchar character varchar date time",
    "datetime timestamp year json",
)
OPERATORS: Final = _words(
    "and or not xor is in like escape regexp rlike between div mod case when then else end sounds member of binary",
    "interval",
)
KEYWORDS: Final = (
    OPERATORS
    | _UNITS
    | _TYPES
    | _words("null true false unknown as collate using from for both leading trailing charset set")
    | _words("returning empty error default on")
)
"""Words of the grammar; a column may be called like some of them."""
BEFORE_PARENTHESES: Final = OPERATORS | _TYPES | _words("for from using as")
"""Keywords that an opening parenthesis may follow."""

REFUSED_WORDS: Final = _words(
    "select with values table into over match against current_user current_role next previous"
)
"""Words that make something else than an expression over one row."""

WHY_REFUSED: Final = {
    **dict.fromkeys(
        ("sysdate",), "is the server's own clock at that moment; NOW() is the time of the event: write that"
    ),
    **dict.fromkeys(_words("rand uuid uuid_short uuid_v4 uuid_v7 sys_guid random_bytes"), "is chance"),
    **dict.fromkeys(
        _words("user current_user session_user system_user current_role connection_id database schema version"),
        "tells about a session, and that of the source is not known",
    ),
    **dict.fromkeys(_words("last_insert_id row_count found_rows"), "tells about an earlier statement"),
    **dict.fromkeys(
        _words("sleep benchmark get_lock release_lock release_all_locks is_free_lock is_used_lock load_file"),
        "does something, or tells what others do",
    ),
    **dict.fromkeys(_words("count sum avg min max group_concat std stddev variance"), "needs more than one row"),
    **dict.fromkeys(_words("select with table values"), "would read other rows"),
}
"""What a person hears of the usual ones."""


# The text of an expression as a tree of sqlglot's: whether it is SQL at all, and one expression.

_LONGEST: Final = 65_536


class ExpressionError(ValueError):
    """Raised for an expression that can't be evaluated; the text says why."""


@lru_cache(maxsize=1024)
def one_expression(text: str) -> Expression:
    """The tree of the expression, in parentheses; raises ExpressionError."""
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    if len(text) > _LONGEST:
        raise ExpressionError("it is too long")
    try:
        statements = parse(f"SELECT ({text}\n)", dialect="mysql")
    except SqlglotError:
        raise ExpressionError("it is not SQL") from None
    except RecursionError:
        raise ExpressionError("it is nested too deeply") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise ExpressionError("it is not one expression")
    select = statements[0]
    given = {name for name, value in select.args.items() if value}
    if given != {"expressions"} or len(select.expressions) != 1 or not isinstance(select.expressions[0], exp.Paren):
        raise ExpressionError("it is not one expression")
    expression: Expression = select.expressions[0]
    return expression
