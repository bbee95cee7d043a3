"""Two servers, a task between them, and what is not a table there."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dm.config.rules import BlockAllowList, RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.ident import Ident
from dm.tools.objects.adapted import Definers
from dm.tools.objects.reading import reader_at
from dm.tools.objects.stored import KINDS, Kind, ObjectName, StoredObject
from dm.tools.objects.survey import ComparedObject
from dm.tools.objects.task_objects import TaskObjects
from tests.testbed.sync import endpoint_of, subtask_for


@dataclass
class Scene:
    """A schema at the source, and where it goes."""

    source: ThrowawayServer
    target: PrivateServer
    schema: str = ""
    at_target: str = ""  # the schema's name there
    routes: tuple[RouteRule, ...] = ()
    accounts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schema = self.schema or f"o_{secrets.token_hex(4)}"
        self.at_target = self.at_target or self.schema
        for server, schema in ((self.source, self.schema), (self.target, self.at_target)):
            server.execute(f"CREATE DATABASE {Ident(schema).sql}")

    def close(self) -> None:
        for server, schema in ((self.source, self.schema), (self.target, self.at_target)):
            server.execute(f"DROP DATABASE {Ident(schema).sql}")
            for account in self.accounts:
                server.execute(f"DROP USER IF EXISTS {account}")

    def tables(self, *definitions: str) -> None:
        """Create tables on both sides: a name in quotes with its columns."""
        for server, schema in ((self.source, self.schema), (self.target, self.at_target)):
            server.execute(*(f"CREATE TABLE {Ident(schema).sql}.{each}" for each in definitions))

    def at_source(self, *statements: str | bytes, session: str = "") -> None:
        """Run statements in the source's schema, in a session like this; bytes as they are."""
        run(self.source, self.schema, statements, session)

    def run_at_target(self, *statements: str | bytes, session: str = "") -> None:
        run(self.target, self.at_target, statements, session)

    def subtask(self) -> SubtaskConfig:
        lists = BlockAllowList.model_validate({"do_dbs": (self.schema,)})
        config = subtask_for(self.source, self.target, self.schema, task="objects", routes=self.routes)
        return config.model_copy(update={"block_allow_list": lists, "case_sensitive": True})

    @contextmanager
    def objects(self, *definers: str) -> Iterator[TaskObjects]:
        found = TaskObjects([self.subtask()], Definers.of(definers))
        try:
            yield found
        finally:
            found.close()

    def compared(self, *definers: str) -> dict[str, ComparedObject]:
        """By kind and name."""
        with self.objects(*definers) as found:
            return by_name(found.compared)

    def applied(self, *definers: str, kinds: Iterable[Kind] = KINDS) -> dict[str, ComparedObject]:
        with self.objects(*definers) as found:
            return by_name(found.apply(kinds))

    def read(self, *, target: bool) -> dict[ObjectName, StoredObject]:
        """The objects of one side as the server tells them, names without their schema."""
        server, schema = (self.target, self.at_target) if target else (self.source, self.schema)
        with reader_at(endpoint_of(server), "target") as reader:
            found = [reader.read(each) for each in list(reader.listed([schema]))]
        return {each.name._replace(schema=""): each for each in found if each is not None}


def run(server: PrivateServer, schema: str, statements: Iterable[str | bytes], session: str = "") -> None:
    connection: Any = server.connect()
    with connection:
        connection.query(f"USE {Ident(schema).sql}")
        if session:
            connection.query(f"SET {session}")
        for statement in statements:
            connection.query(statement)


def by_name(found: Iterable[ComparedObject]) -> dict[str, ComparedObject]:
    return {f"{each.name.kind} {each.name.name}": each for each in found}


def states(found: dict[str, ComparedObject]) -> dict[str, str]:
    return {name: each.state for name, each in found.items()}
