"""Progress rows that no run has stored: read as what they say, or refused by name, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import Ident, TableName
from dm.position import Position
from dm.progress.checkpoint import read_checkpoint, read_position_of, read_structure_of
from dm.progress.intent import read_intent, read_online
from dm.progress.joining.table_joining import read_joining
from dm.progress.lane_rows import read_lanes, read_ordered
from dm.progress.load_parts import (
    SUFFIX,
    LoadRun,
    begin_run,
    filled_tables,
    loaded_bytes,
    loaded_sizes,
    noted_duplicates,
    tables_loaded_into,
)
from dm.progress.made_tables import create_records, made_tables
from dm.progress.operators import read_operators
from dm.progress.replayed import create_record, read_replay
from dm.progress.shards.group import GroupDdl, Shard, ShardTables, create_shard_tables
from dm.progress.shards.held_shards import read_held
from dm.progress.shards.numbered_ddls import ShardGroups
from dm.progress.shards.optimistic_structures import ShardStructures
from dm.progress.tables import SubtaskKey, create_tables, reading
from dm.progress.validator import ValidatorProgress, ValidatorTables, create_validator_tables, read_validation
from dm.progress.validator_errors import read_errors
from dm.syncer.merge_order import create_order_table, read_order
from dm.task.shard_locks import read_locks
from dm.tools.validator.pending import restored
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
GARBAGE = (
    "", "\u00b2", "x", "{}", "null", '[["a"]]', '{"v": 1}', '{"binlog": 5}', f"{UUID}:\u00b2", f"{UUID}:1-{'9' * 5000}",
    "[" * 5000,
)  # fmt: skip

PLACE = Position(UUID, "mysql-bin.000001", 4, GtidSet.empty("mysql"))
SHARD = Shard(TableName("s", "t"), TableName("s", "t"))
Reader = Callable[[TargetConnection, SubtaskKey], object]


def arrive(connection: TargetConnection, key: SubtaskKey) -> object:
    """A shard comes to a DDL of which another one has told."""
    groups = ShardGroups(key, optimistic=True)
    connection.execute(
        f"INSERT IGNORE INTO {ShardTables.of(key).table.sql} (id, s_schema, s_table, t_schema, t_table, ready)"
        " VALUES ('other', 's', 'u', 's', 't', 1)"
    )
    groups.ensure(connection, [SHARD.target])
    groups.waits_for(connection, SHARD)
    groups.announced_piece(connection, SHARD, PLACE)
    groups.arrive(connection, GroupDdl(SHARD, "ADD a INT", ("ALTER TABLE s.t ADD a INT",)))
    return read_locks(connection, key)


def survey(connection: TargetConnection, key: SubtaskKey) -> object:
    """What a decision in the optimistic mode begins with, what comes later, and the columns of others."""
    structures = ShardStructures(key)
    ShardGroups(key).ensure(connection, [SHARD.target])
    ShardGroups(key).known(connection, SHARD.target)
    structures.store_executed(connection, SHARD)
    structures.others_have(connection, Shard(TableName("s", "u"), SHARD.target), ("a",))
    return structures.survey(connection, SHARD, "", ["a"])


def restore(connection: TargetConnection, key: SubtaskKey) -> object:
    """What a validator goes on with."""
    progress = ValidatorProgress(connection, key)
    stored = progress.claim()
    connection.execute(f"UPDATE {ValidatorTables.of(key).pending.sql} SET revision = 0")
    with reading(ValidatorTables.of(key).pending, key.source_id):
        return stored, restored(progress.rows())


def load(connection: TargetConnection, key: SubtaskKey) -> object:
    """What a load goes on with."""
    run = LoadRun(key, "", 0)
    found = [each(connection, run) for each in (loaded_sizes, loaded_bytes, noted_duplicates, filled_tables)]
    return found, made_tables(connection, run), tables_loaded_into(connection, run, SHARD.target)


READERS: dict[str, tuple[Callable[[SubtaskKey], TableName], Reader]] = {
    "checkpoint": (lambda key: key.checkpoint, read_checkpoint),
    "position": (lambda key: key.checkpoint, read_position_of),
    "structure": (lambda key: key.checkpoint, lambda by, key: read_structure_of(by, key, TableName("s", "t"))),
    "lanes": (lambda key: key.worker, read_lanes),
    "intent": (lambda key: key.intent, read_intent),
    "operators": (lambda key: key.operator, read_operators),
    "online": (lambda key: key.online, read_online),
    "ordered": (lambda key: key.ordered, read_ordered),
    "joining": (lambda key: key.joining, read_joining),
    "order": (lambda key: key.order, read_order),
    "replay": (lambda key: key.replay, read_replay),
    "held": (lambda key: ShardTables.of(key).held, read_held),
    "shard ddl": (lambda key: ShardTables.of(key).ddl, arrive),
    "arrived shard": (lambda key: ShardTables.of(key).table, arrive),
    "shard group": (lambda key: ShardTables.of(key).group, survey),
    "shard table": (lambda key: ShardTables.of(key).table, survey),
    "load": (lambda key: key.table(SUFFIX), load),
    "made": (lambda key: key.made, load),
    "restored": (lambda key: ValidatorTables.of(key).checkpoint, restore),
    "restored rows": (lambda key: ValidatorTables.of(key).pending, restore),
    "validation": (lambda key: ValidatorTables.of(key).checkpoint, read_validation),
    "pending": (lambda key: ValidatorTables.of(key).pending, read_validation),
    "errors": (lambda key: ValidatorTables.of(key).error, lambda by, key: read_errors(by, key, ["new"])),
}


@pytest.fixture
def stored(target: ThrowawayServer, schema: SchemaFactory) -> Iterator[tuple[TargetConnection, SubtaskKey]]:
    key = SubtaskKey(schema(target), "task", "source-1")
    with closing(TargetConnection(endpoint_of(target))) as connection:
        for create in (create_tables, create_shard_tables, create_order_table, create_record, create_validator_tables):
            create(connection, key)
        begin_run(connection, key, "", threading.Event())
        create_records(connection, key)
        # Numbers only, so a target that lies is needed to have others.
        for table, names in ((key.table(SUFFIX), ("chunk", "row_count", "byte_count")), (key.made, ("created",))):
            connection.execute(f"ALTER TABLE {table.sql} {', '.join(f'MODIFY {each} VARCHAR(40)' for each in names)}")
        yield connection, key


def rows(connection: TargetConnection, table: TableName) -> Iterator[dict[str, object]]:
    """Rows with garbage in every text, and in one after the other beside a place as it should be."""
    columns = connection.query(
        "SELECT column_name, data_type, character_maximum_length FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND extra NOT LIKE '%%auto_increment%%'",
        (table.schema, table.table),
    )
    good: dict[str, object] = {
        "id": "source-1", "source": "source-1", "cp_schema": "s", "cp_table": "t", "is_global": 0,
        "server_uuid": UUID, "binlog_name": "mysql-bin.000001", "binlog_pos": 4, "binlog_gtid": f"{UUID}:1-5",
        "phase": 0, "status": 1, "number": 1, "t_schema": "s", "t_table": "t", "s_schema": "s", "s_table": "t",
    }  # fmt: skip
    texts: dict[str, int] = {}
    for name, kind, size in ((str(one[0]), str(one[1]), one[2]) for one in columns):
        if name == "table_info":
            good[name], texts[name] = "{}", 1 << 20
        elif "char" in kind or "text" in kind:
            good.setdefault(name, "")
            texts[name] = int(str(size))
        elif "int" in kind:
            good.setdefault(name, 0)
    base = {name: good[name] for name in [str(one[0]) for one in columns] if name in good}
    free = [
        name for name in texts if name not in ("id", "source", "cp_schema", "cp_table") and name[:2] not in ("s_", "t_")
    ]
    for garbage in GARBAGE:
        for name in free:
            yield {**base, name: garbage[: texts[name]]}
        yield {**base, **{name: garbage[: texts[name]] for name in free}}


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("what", READERS)
def test_what_no_run_has_stored_is_refused_by_name(what: str, stored: tuple[TargetConnection, SubtaskKey]) -> None:
    connection, key = stored
    table_of, read = READERS[what]
    table = table_of(key)
    if what == "pending":
        connection.execute(
            f"INSERT INTO {ValidatorTables.of(key).checkpoint.sql} (source, binlog_gtid, structures, cutover_gtid)"
            " VALUES ('source-1', '', '', '')"
        )
    refused: list[DMError] = []
    for row in rows(connection, table):
        for is_global in (0, 1) if "is_global" in row else (0,):
            values = {**row, "is_global": is_global} if "is_global" in row else row
            if put(connection, table, values):
                try:
                    read(connection, key)
                except DMError as error:
                    refused.append(error)
    assert refused or what == "order", "something was garbage"
    assert {error.name for error in refused} <= {"checkpoint-damaged", "structure-not-understood"}
    damaged = [str(error) for error in refused if error.name == "checkpoint-damaged"]
    assert all(str(table) in text or what == "pending" for text in damaged)


def put(connection: TargetConnection, table: TableName, values: dict[str, object]) -> bool:
    """Make it the only row; False where the column is JSON and the server takes no such text."""
    names = ", ".join(Ident(name).sql for name in values)
    marks = ", ".join(["%s"] * len(values))
    connection.execute(f"DELETE FROM {table.sql}")
    try:
        connection.run(f"INSERT INTO {table.sql} ({names}) VALUES ({marks})", list(values.values()))
    except DMError as error:
        if "table_info" in error.cause or "JSON" in error.cause:
            return False
        raise
    return True
