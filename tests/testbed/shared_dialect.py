"""What tables and statements are drawn where source and target are of two kinds: what both have, and treat alike.

What is left out is not equal by nature, or pauses a task on purpose (docs/tidb.md, docs/ddl.md):

- types and character sets that one of them lacks; a moment before 1970-01-01 00:00:01, which only MariaDB has;
- a new type for rows that are there (36937), defaults of long types, of which MySQL and TiDB have none;
- a KEY of a long column without a length, to which a MariaDB adds one (36910);
- expressions of texts and of dates, which each server computes by its own rules;
- at a TiDB: a primary key that goes, a column of an index of several, collations besides its own; a default with more
  digits of a second than its column, which MariaDB cuts and TiDB rounds (36937), and tells as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from dm.mysql.dialect import Flavor
from tests.live.binlog.types import TYPES
from tests.testbed.random_table import KEY_TYPES, PREFIX_TYPES, WIDE_TYPES, Dialect

Kind = Literal["mysql", "mariadb", "tidb"]

_JSON = ("'null'", "'{}'", "'[]'", "'[1, -2, true, false, null, \"x\"]'", '\'{"b": 1, "aa": {"c": [1, [2]]}}\'')
_NO_MOMENT = "'1970-01-01 00:00:00.999999'"
# Members that are equal in the collation are refused there, too.
_NOT_IN_TIDB = re.compile(r"utf16|sjis|gb18030|GEOMETRY|POINT|POLYGON|VECTOR|ENUM\('a','b','ä'\)")
_MOMENT = re.compile(r"(?:DATETIME|TIMESTAMP|TIME)(?:\((\d)\))?")
_LATIN1 = re.compile(r"CHARACTER SET latin1$")


def shared_dialect(source: Flavor, target: Kind) -> Dialect:
    """For rows of `source` at `target`."""
    types = {kind: values for kind, values in WIDE_TYPES[source].items() if kind in TYPES}
    if source == "mysql":
        types["JSON"] = _JSON
    found = {kind: tuple(each for each in values if each != _NO_MOMENT) for kind, values in types.items()}
    if target == "tidb":
        found = {kind: tuple(each for each in values if _fits(kind, each)) for kind, values in found.items()}
    return Dialect(
        types=_at(target, found),
        key_types=_at(target, KEY_TYPES),
        prefix_types=_at(target, PREFIX_TYPES),
        options=("",) if target == "tidb" else ("", "", "DEFAULT CHARSET=latin1", "ROW_FORMAT=COMPACT"),
        converts=False,
        only_numbers=True,
        defaults_of_long_types=False,
        alters_keys=target != "tidb",
        whole_long_keys=False,
    )


def _fits(kind: str, value: str) -> bool:
    """Whether a moment has no more digits of a second than its type."""
    of = _MOMENT.match(kind)
    return of is None or len(value.rstrip("'").partition(".")[2]) <= int(of[1] or 0)


def _at(target: Kind, types: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    if target != "tidb":
        return dict(types)
    return {
        _LATIN1.sub("CHARACTER SET latin1 COLLATE latin1_bin", kind): values
        for kind, values in types.items()
        if not _NOT_IN_TIDB.search(kind)
    }
