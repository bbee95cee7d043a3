"""Which columns of a before image go to the target in a row event: those of the key by which the server finds the row.

A server that executes an UPDATE or DELETE looks for the row by the table's primary key where that is in the image, and
takes what it finds, whatever the other columns of the image say (MySQL, Rows_log_event::do_index_scan_and_update;
MariaDB, Rows_log_event::find_row). So these other columns are read by nobody. They are half of the bytes of an UPDATE
and nearly all of a DELETE, and each is made text here, sent, and unpacked there. Without them the outcome is the same:

- a row that is there is changed, whatever its other columns are; one that is missing is error 1032;
- the new row comes from the after image, which has all columns. What a server writes of the old one (its own binlog,
  indexes, foreign keys, what it computes) it takes from the row that it has read.

A before image goes whole where that may not hold:

- a table that the target finds by no such key. All values tell its rows apart, or any unique index may be used.
- an engine other than InnoDB, which reads the whole row for an UPDATE. Another one may look for a row by all that the
  event says, or read no more than that.
- a table with VIRTUAL columns, or with an index over an expression, which is a column that MySQL hides. MySQL 9.7
  writes NULL for a VIRTUAL column of a deleted row into its own binlog where the image has not what it is computed
  from, so a replica of the target would look for another row.
- a key over a column that the server computes: whether it takes the image's value or computes one of columns that are
  not there is another rule in each server.
- a key over the beginning of a column. The image's value is whole; this is rare, and not worth a rule.
- MariaDB's hidden columns for a UNIQUE that is too long for an index: the image has columns without a name.

Where there is no primary key both servers take the first unique index of whole columns that are NOT NULL for one. What
the server takes is not guessed from that alone: before its events each transaction asks for the table's columns
(`dm.changes.event_form.TableLook`), and the answer says which are of the primary key. If somebody gives the table
another one by hand while the task runs, rows go as SQL.
"""

from __future__ import annotations

from collections.abc import Sequence

from dm.mysql.schema.table import Column, Index, TableSchema

_ENGINE = "innodb"


def found_by(target: TableSchema, wire: Sequence[Column]) -> tuple[int, ...]:
    """The places, among the columns that events have, of those that a before image needs; none: it needs all."""
    places = {column.name.lower(): at for at, column in enumerate(wire)}
    index = _primary(target)
    hidden = len(wire) != len(target.columns)
    if index is None or hidden or _virtual(target) or (target.engine or "").lower() != _ENGINE:
        return ()
    found = [places.get((part.column or "").lower(), -1) for part in index.parts if part.prefix is None]
    if len(found) != len(index.parts) or -1 in found or any(wire[at].generated for at in found):
        return ()
    return tuple(sorted(found)) if len(found) < len(wire) else ()


def _virtual(target: TableSchema) -> bool:
    return any(column.generated == "virtual" for column in target.columns) or any(
        index.functional for index in target.indexes
    )


def _primary(target: TableSchema) -> Index | None:
    """What the server takes for the table's primary key."""
    uniques = target.unique_indexes
    if uniques and uniques[0].kind == "primary":
        return uniques[0]
    return next((index for index in uniques if index.identifies(target)), None)
