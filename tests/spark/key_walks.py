"""What a dump makes of a table's keys, asked of a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dm.dumpfiles.chunk_plan import Bound, WalkedKey, conditions, walked_key
from dm.dumpfiles.text_rows import read_all
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import read_facts, read_structure


def key_of(questions: Connection, table: TableName) -> WalkedKey | None:
    """The key that a dump walks."""
    facts = read_facts(questions)
    context = SourceContext(facts.flavor, facts.version, table.schema)
    return walked_key(parse_create_table(read_structure(questions, table), context))


def chunk_sizes(rows: Connection, table: TableName, key: WalkedKey, bounds: Sequence[Bound]) -> list[int]:
    """How many rows are in each chunk; all of them have each row, which its column `n` tells, once."""
    everything = [row[0] for row in read_all(rows, f"SELECT n FROM {table.sql}")]
    assert everything, table
    chunks = [
        [row[0] for row in read_all(rows, f"SELECT n FROM {table.sql} WHERE {condition}")]
        for condition in conditions(key, tuple(bounds))
    ]
    assert Counter(number for chunk in chunks for number in chunk) == Counter(everything), table
    return [len(chunk) for chunk in chunks]
