"""Shard merge, optimistic: each shard's structure, and what the target's table keeps for some shards.

`tests/testbed/optimistic_model.py` checks it exhaustively; `shard_members_model.py` checks O7. The rules of
`numbered_ddls.py` hold as well: statements that need all shards are numbered there. For the other statements
(`dm.syncer.shards.optimistic_policy`):

O1  A shard's new structure commits with the L after its event. A restart reads the event again with the structure
    before it.
O2  The deciding session holds the turn of the target table until that is committed. Its statements bring the target
    into a certain state, so executing them twice is harmless, and no intent is needed.
O3  Each decision counts the group's `revision`, in a transaction under the latch that reads the structures and checks
    that the turn is still held. A structure is stored only under the same revision. So a session that lost its turn
    without noticing stores nothing that another decision has not seen.
O4  A column that is to be optional for rows without it (`loose`) is stored as loose before the target is altered.
O5  The columns that hold a shard's old values (`kept`) are stored with its structure. So are columns that the shard
    lacks and whose DEFAULT others change. Columns that the target has lost are forgotten for all shards by the next
    decision, before anything is executed.
O6  Nothing is decided before every source has joined, and the structure of every shard is known.
O7  A shard whose structure already is what a DDL makes of the others (`dm.mysql.schema.merged_table`) is not waited
    for. If all others are like that, the DDL is executed like one that passes, and has no number. If it holds for a
    shard that arrives at the DDL later, then it holds for the later shard against all others. If some shards are waited
    for, it is checked again in the turn, in which no structure changes, and counted with `executed`: the shard's next
    DDL has the next number. A shard that arrives at another DDL stays there, so it may be counted at once. It may also
    arrive there before any shard is at the DDL that it is beyond (`ddl_renumbering.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.merged_table import filling
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.progress.shards.group import EARLY, WITH_THE_HELD, Shard, ShardTables
from dm.progress.tables import SubtaskKey, reading, reads_own, texts
from dm.session.answers import reads_answers


@dataclass(frozen=True, slots=True)
class SurveyedShard:
    """A shard with its structure, as another shard's decision sees it."""

    source_id: str
    table: TableName
    schema: TableSchema | None  # None: not known yet
    kept: frozenset[str]
    early: bool = False  # it waits at its CREATE TABLE: the target has no row of it, and may lack its columns

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.source_id} {self.table}"


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    """A group at the moment of a decision."""

    revision: int
    ready: bool  # every source has joined, and each structure is known
    others: tuple[SurveyedShard, ...]
    loose: frozenset[str]
    kept: frozenset[str]  # of the shard at hand
    gated: bool  # the shard waits for all others, or arrives at a statement at which another shard does


class ShardStructures:
    """What one source stores. Each method works inside the caller's open transaction, under its claim."""

    def __init__(self, key: SubtaskKey) -> None:
        self.key = key  # of the source, not of a second pass
        self._tables = ShardTables.of(key)

    @reads_own(lambda key: ShardTables.of(key).table)
    def survey(self, connection: TargetConnection, shard: Shard, form: str, there: Iterable[str]) -> GroupSurvey:
        """Begin a decision; `there` are the target's present columns, read in its turn."""
        group, table = self._tables.group.sql, self._tables.table.sql
        stored = connection.query(
            f"SELECT executed, revision, loose FROM {group} WHERE t_schema = %s AND t_table = %s FOR UPDATE",
            tuple(shard.target),
        )
        with reading(self._tables.group, self.key.source_id):
            executed, revision, loose = int(stored[0][0]), int(stored[0][1]), _names(stored[0][2])
        connection.execute(
            f"UPDATE {group} SET revision = revision + 1 WHERE t_schema = %s AND t_table = %s", tuple(shard.target)
        )
        rows = connection.query(
            "SELECT id, s_schema, s_table, passed, ready, structure, structure_after, kept, early,"
            f" waived < ready FROM {table} WHERE t_schema = %s AND t_table = %s"
            " ORDER BY id, s_schema, s_table",
            tuple(shard.target),
        )
        columns, others = {name.lower() for name in there}, list[SurveyedShard]()
        mine, passed, waits = frozenset[str](), executed, False
        for source_id, s_schema, s_table, number, ready, structure, after, kept, early, waited_for in rows:
            name = TableName(str(s_schema), str(s_table))
            # An executed DDL that all had to arrive at counts for this shard, too, unless the shard was waived.
            text = after if int(number) < min(executed, int(ready)) else structure
            still = self._still_kept(connection, str(source_id), name, _names(kept), columns)
            if (str(source_id), name) == (self.key.source_id, shard.table):
                mine, passed, waits = still, int(number), int(ready) > int(number)
            else:
                schema = schema_from_json(str(text)) if text else None
                waits_early = int(early) == WITH_THE_HELD or (int(early) == EARLY and bool(waited_for))
                others.append(SurveyedShard(str(source_id), name, schema, still, waits_early))
        known = all(other.schema is not None for other in others)
        return GroupSurvey(
            revision + 1,
            known and self._joined(connection),
            tuple(others),
            loose,
            mine,
            waits or self._open(connection, shard, passed + 1, form),
        )

    def loosen(self, connection: TargetConnection, target: TableName, loose: frozenset[str]) -> None:
        """Store which columns get a default only for shards that lack them, before they get it."""
        connection.execute(
            f"UPDATE {self._tables.group.sql} SET loose = %s WHERE t_schema = %s AND t_table = %s",
            (json.dumps(sorted(loose)), *target),
        )

    def store(
        self,
        connection: TargetConnection,
        shard: Shard,
        schema: TableSchema,
        survey: GroupSurvey,
        *,
        kept: frozenset[str],
        loose: frozenset[str],
    ) -> None:
        """Store the shard's new structure, in the transaction that stores L; raises DMError."""
        self.narrowed(connection, shard.target, survey, loose)
        self._set(connection, shard.table, structure=schema_to_json(schema), kept=json.dumps(sorted(kept)))

    @reads_own(lambda key: ShardTables.of(key).group)
    def narrowed(
        self, connection: TargetConnection, target: TableName, survey: GroupSurvey, loose: frozenset[str]
    ) -> None:
        """Store that a decision is executed, in the transaction that stores L; raises DMError."""
        found = connection.query(
            f"SELECT revision FROM {self._tables.group.sql} WHERE t_schema = %s AND t_table = %s FOR UPDATE",
            tuple(target),
        )
        if int(found[0][0]) != survey.revision:
            raise DMError("shard-ddl-out-of-turn", target=target, number=survey.revision)
        self.loosen(connection, target, loose)

    def arrived(
        self, connection: TargetConnection, shard: Shard, after: TableSchema | None, target: TableSchema | None
    ) -> None:
        """Store that the shard waits for all others, and will have the structure `after`.

        `target` has the keys that find all shards' rows (`undergone`). They change for all at once, so any shard may
        store them.
        """
        if target is not None:
            connection.execute(
                f"UPDATE {self._tables.group.sql} SET target = %s WHERE t_schema = %s AND t_table = %s",
                (schema_to_json(target), *shard.target),
            )
        self._set(connection, shard.table, structure_after=None if after is None else schema_to_json(after))

    def store_passed(self, connection: TargetConnection, shard: Shard, schema: TableSchema | None) -> None:
        """Store that the shard is past a DDL that all had to arrive at, in the transaction that stores L after it."""
        self._set(
            connection,
            shard.table,
            structure=None if schema is None else schema_to_json(schema),
            structure_after=None,
        )

    @reads_own(lambda key: ShardTables.of(key).table)
    def learn(self, connection: TargetConnection, schemas: Iterable[TableSchema]) -> None:
        """Store the structures of this source's shards at L, if they differ or are missing."""
        rows = connection.query(
            f"SELECT s_schema, s_table, structure FROM {self._tables.table.sql} WHERE id = %s", (self.key.source_id,)
        )
        stored = {TableName(str(row[0]), str(row[1])): row[2] for row in rows}
        for schema in schemas:
            text = stored.get(schema.name, "")
            if text is None or (text and schema_from_json(str(text)) != schema):
                self._set(connection, schema.name, structure=schema_to_json(schema))

    @reads_own(lambda key: ShardTables.of(key).table)
    def store_executed(self, connection: TargetConnection, shard: Shard) -> None:
        """A DDL that all had to arrive at is executed; in the transaction that counts it, in the target's turn.

        If it changes a DEFAULT, a waived shard that lacks the column has rows with the old default.
        """
        table, of_target = self._tables.table.sql, "t_schema = %s AND t_table = %s"
        rows = connection.query(
            "SELECT id, s_schema, s_table, structure, COALESCE(structure_after, structure), kept"
            f" FROM {table} WHERE {of_target} AND structure IS NOT NULL",
            tuple(shard.target),
        )
        found = {(str(row[0]), TableName(str(row[1]), str(row[2]))): row[3:] for row in rows}
        own = found.pop((self.key.source_id, shard.table), None)
        if own is None:
            return
        before, after = (schema_from_json(str(text)) for text in own[:2])
        changed = {
            column.name.lower()
            for column in after.columns
            if (old := before.column(column.name)) is not None and filling(old) != filling(column)
        }
        for (source_id, name), (_, theirs, kept) in found.items():
            schema = schema_from_json(str(theirs))
            lacking = frozenset(column for column in changed if schema.column(column) is None)
            if lacking - _names(kept):
                # A decision made before this must not be stored (O3).
                connection.execute(
                    f"UPDATE {self._tables.group.sql} SET revision = revision + 1 WHERE {of_target}",
                    tuple(shard.target),
                )
                connection.execute(
                    f"UPDATE {table} SET kept = %s, since = since WHERE id = %s AND s_schema = %s AND s_table = %s",
                    (json.dumps(sorted(lacking | _names(kept))), source_id, *name),
                )

    def told(self, connection: TargetConnection, shard: Shard, schema: TableSchema) -> None:
        """Store a structure that a person has set, in the transaction that stores it at the checkpoint.

        The caller has made sure that no run of the source exists. A concurrent decision of another source then stores
        nothing: it has seen the shard's old structure.
        """
        connection.execute(
            f"UPDATE {self._tables.group.sql} SET revision = revision + 1 WHERE t_schema = %s AND t_table = %s",
            tuple(shard.target),
        )
        self._set(connection, shard.table, structure=schema_to_json(schema))

    def learn_early(self, connection: TargetConnection, created: TableSchema) -> None:
        """Store the structure of a new table that waits at its CREATE TABLE; it stays the same after the wait."""
        text = schema_to_json(created)
        self._set(connection, created.name, structure=text, structure_after=text)

    @reads_own(lambda key: ShardTables.of(key).table)
    def others_have(self, connection: TargetConnection, shard: Shard, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Which of these columns other shards have, or may have if their structures are not known."""
        rows = connection.query(
            f"SELECT id, s_schema, s_table, structure, structure_after FROM {self._tables.table.sql}"
            " WHERE t_schema = %s AND t_table = %s",
            tuple(shard.target),
        )
        theirs = set[str]()
        for source_id, s_schema, s_table, *structures in rows:
            if (str(source_id), TableName(str(s_schema), str(s_table))) == (self.key.source_id, shard.table):
                continue
            if structures[0] is None:
                return columns
            known = (schema_from_json(str(text)) for text in structures if text)
            theirs |= {column.name.lower() for schema in known for column in schema.columns}
        return tuple(name for name in columns if name.lower() in theirs)

    # -- Inside

    def _set(self, connection: TargetConnection, table: TableName, **values: str | None) -> None:
        assigned = ", ".join(f"{name} = %s" for name in values)
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET {assigned} WHERE id = %s AND s_schema = %s AND s_table = %s",
            (*values.values(), self.key.source_id, *table),
        )

    def _still_kept(
        self, connection: TargetConnection, source_id: str, table: TableName, kept: frozenset[str], there: set[str]
    ) -> frozenset[str]:
        still = kept & there
        if still != kept:
            connection.execute(
                f"UPDATE {self._tables.table.sql} SET kept = %s WHERE id = %s AND s_schema = %s AND s_table = %s",
                (json.dumps(sorted(still)), source_id, *table),
            )
        return still

    @reads_answers
    def _joined(self, connection: TargetConnection) -> bool:
        late = connection.query(f"SELECT COUNT(*) FROM {self._tables.source.sql} WHERE NOT joined")
        return int(late[0][0]) == 0

    @reads_answers
    def _open(self, connection: TargetConnection, shard: Shard, number: int, form: str) -> bool:
        rows = connection.query(
            f"SELECT form FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, number),
        )
        return bool(rows) and str(rows[0][0]) == form


class NoStructures:
    """The pessimistic mode stores no structures."""

    def arrived(
        self, connection: TargetConnection, shard: Shard, after: TableSchema | None, target: TableSchema | None
    ) -> None:
        """Nothing."""

    def store_executed(self, connection: TargetConnection, shard: Shard) -> None:
        """Nothing."""

    def store_passed(self, connection: TargetConnection, shard: Shard, schema: TableSchema | None) -> None:
        """Nothing."""

    def learn(self, connection: TargetConnection, schemas: Iterable[TableSchema]) -> None:
        """Nothing."""


StoredStructures = ShardStructures | NoStructures


def _names(text: object) -> frozenset[str]:
    return frozenset(texts(text)) if text else frozenset()
