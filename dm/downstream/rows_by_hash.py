"""Applies a table's changes inside the open transaction with one reading of the table for a list of rows.

The target hashes the images (no table is read), then deletes every row with one of these hashes and returns them:
DELETE .. RETURNING, the only statement that reads the table. If fewer rows of an image are found than the changes
remove, the changes are applied one by one, to tell which one fails. Rows deleted in excess are inserted again, with the
new rows. All of it is inside the transaction of the lane's row.

The rows are deleted and inserted again, so the table must have no more columns than the source fills. Each text is made
for its column's type: a DECIMAL that has got more digits since would lose them, and two rows would become equal. The
plan knows the table, but another session may have altered it since, for example another source of a merged table. So
the structure is read again after the DELETE, whose lock keeps the table unchanged, and each column must be as planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from dm.changes.plan import STATEMENT_ROWS
from dm.changes.row_bag import MIN_SEARCHED, BagChange
from dm.changes.statement import insert_head
from dm.downstream.connection import TargetConnection
from dm.downstream.statements import StatementResult
from dm.downstream.target_schema import has_triggers, read_schema
from dm.mysql.sql.literal import statements
from dm.session.answers import reads_answers

_HASH_BYTES: Final = 67  # of one in a list: 0x, the digits, a comma
_LIST_BYTES: Final = 8 << 20  # the server holds some times as much of a list
# More equal rows than this are not worth removing and writing again.
_REMOVED_AT_MOST: Final = 8
_REMOVED_ANYWAY: Final = 1000
_WRITTEN_AGAIN_BYTES: Final = 64 << 20
# A long list would become a table that is joined.
_AS_A_LIST: Final = b"SET STATEMENT in_predicate_conversion_threshold=0 FOR "


class Lacking(Exception):
    """The target lacks a row; applying the changes one by one tells which."""

    why: Final = "the target lacks a row that is looked for"


class NotByHash(Exception):
    """Rows of this table can't be found by their hash."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def carry_out(connection: TargetConnection, bag: BagChange) -> int:
    """Have the table take the changes; gives the number of statements. Raises DMError, Lacking and NotByHash."""
    texts = _texts_by_hash(connection, bag)
    wanted = {hashed: sum(bag.gone[text].count for text in alike) for hashed, alike in texts.items()}
    removed: Counter[bytes] = Counter()
    count = 1
    for part in _parts(wanted, _listed_at_most(connection, len(wanted))):
        removed += _removed(connection, bag, part)
        count += 1
    _demand_same_columns(connection, bag)
    written, again = Counter(bag.come), 0
    for hashed, taken in wanted.items():
        if removed[hashed] < taken:
            raise Lacking
        written[texts[hashed][0]] += removed[hashed] - taken
        again += (removed[hashed] - taken) * len(texts[hashed][0])
    if again > _WRITTEN_AGAIN_BYTES:
        raise NotByHash("the target has many equal rows")
    return count + _write(connection, bag, written)


def _listed_at_most(connection: TargetConnection, wanted: int) -> int:
    """How many hashes one DELETE contains: each further DELETE reads the table again."""
    most = min(connection.data_bytes // 2, _LIST_BYTES) // _HASH_BYTES
    if most < min(wanted, MIN_SEARCHED):
        raise NotByHash("the target takes no list of so many hashes")
    return most


@reads_answers
def _texts_by_hash(connection: TargetConnection, bag: BagChange) -> dict[bytes, list[bytes]]:
    """The rows that have to go, by their hash; several may be one to the target."""
    found: dict[bytes, list[bytes]] = {}
    texts = list(bag.gone)
    images = (b"(%d,%b)" % (at, bag.hash.of_image(gone.row)) for at, gone in enumerate(bag.gone.values()))
    for question, _ in statements(b"VALUES ", images, b"", connection.statement_bytes, most=STATEMENT_ROWS):
        for at, hashed in connection.query(question):
            if not isinstance(hashed, bytes):
                raise NotByHash("the target gives no hash of a row")
            found.setdefault(hashed, []).append(texts[int(at)])
    if sum(map(len, found.values())) != len(texts):
        raise NotByHash("the target gives fewer hashes than there are rows")
    return found


@reads_answers
def _removed(connection: TargetConnection, bag: BagChange, wanted: Mapping[bytes, int]) -> Counter[bytes]:
    """Remove all rows with these hashes; gives how many had each."""
    most = _REMOVED_AT_MOST * sum(wanted.values()) + _REMOVED_ANYWAY
    listed = b",".join([b"0x" + hashed.hex().encode() for hashed in wanted])
    found = connection.query_patiently(
        b"%bDELETE FROM %b WHERE %b IN (%b) LIMIT %d RETURNING %b"
        % (_AS_A_LIST, bag.plan.target.sql.encode(), bag.hash.of_row, listed, most, bag.hash.of_row)
    )
    if len(found) >= most:
        raise NotByHash("the target has many equal rows")
    return Counter(hashed for (hashed,) in found)


def _demand_same_columns(connection: TargetConnection, bag: BagChange) -> None:
    """The table is locked by now: nobody alters it before the end of the transaction."""
    target = bag.plan.target
    found = read_schema(connection, target)
    known = {column.target for column in bag.plan.columns}
    if found is None or set(found.columns) != known or has_triggers(connection, target):
        raise NotByHash("the target's table is another one than it was")


def _write(connection: TargetConnection, bag: BagChange, rows: Counter[bytes]) -> int:
    head = insert_head(bag.plan, b"INSERT", bag.plan.columns)
    outcomes: list[StatementResult] = []
    for sql, _ in statements(head, rows.elements(), b"", connection.statement_bytes, most=STATEMENT_ROWS):
        connection.run_all([sql], outcomes)  # one at a time: all the rows may be many
    if sum(outcome.affected for outcome in outcomes) != rows.total():
        raise NotByHash("the target took another number of rows than it was given")
    return len(outcomes)


def _parts(wanted: Mapping[bytes, int], most: int) -> Iterator[dict[bytes, int]]:
    items = list(wanted.items())
    for at in range(0, len(items), most):
        yield dict(items[at : at + most])
