"""Words that an expression evaluated by a server may have: those whose result the row and the moment alone decide.

A list of what is allowed, not of what is forbidden: a function that nobody thought of is refused, since a filter that
gives another result the next time would lose rows. What one of the two flavours lacks is listed all the same; the
target itself is asked about that before the task starts.
"""

from __future__ import annotations

from typing import Final


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
