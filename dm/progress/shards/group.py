"""A group of shards at one moment: its members, which DDL each has reached, and which shards are missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from dm.ident import TableName


class Standing(Enum):
    """What a shard may do at a DDL."""

    EXECUTED = "the target has it"
    COMPLETE = "all have arrived"
    OTHERS_MISSING = "all of this source have arrived"
    OWN_MISSING = "shards of this source have not arrived"
    AGAIN = "it is held, and its event is read again: what it waited for won't come"


# Why a table waits at its CREATE TABLE.
EARLY: Final = 1  # other shards have to execute a DDL first
WITH_ITS_MODEL: Final = 2  # it copies the structure of a held shard, and waits for what that shard waits for
WITH_THE_HELD: Final = 3  # statements of its source's held shards are not at the target yet
ANEW: Final = 4  # what it waited for won't come
GOES_ON: Final = (Standing.EXECUTED, Standing.COMPLETE)
READ_AGAIN: Final = (*GOES_ON, Standing.AGAIN)  # by a second pass


@dataclass(frozen=True, slots=True)
class Shard:
    """A source table and its target table."""

    table: TableName
    target: TableName


@dataclass(frozen=True, slots=True)
class GroupDdl:
    """A DDL in one shard's binlog."""

    shard: Shard
    form: str  # equal for equal statements
    statements: tuple[str, ...]  # for people


@dataclass(frozen=True, slots=True)
class Member:
    """A shard of a group, as stored."""

    source_id: str
    table: TableName
    passed: int
    ready: int
    early: bool = False  # it waits at its CREATE TABLE until others have executed a DDL
    anew: bool = False  # it is held, and has not arrived at any DDL
    waived: int = 0  # up to this DDL, nobody waits for it
    known: bool = False  # its structure is (optimistic mode)
    beyond: bool = False  # its structure is what the open DDL makes of a shard (optimistic mode)


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """A target table's shards at one moment."""

    executed: int
    members: tuple[Member, ...]
    joined: bool  # every source of the task
    begun: bool = False  # the next DDL is being executed, and waits for no shard any more
    opened: bool = False  # a shard has arrived at the next DDL

    def standing(self, source_id: str, table: TableName, number: int) -> Standing:
        """What a shard that has arrived at this DDL may do."""
        if self.executed >= number:
            return Standing.EXECUTED
        if self.begun and number == self.executed + 1:
            return Standing.COMPLETE
        if any(self._is(each, source_id, table) and each.ready < number for each in self.members):
            # Held before anything could be decided.
            return Standing.COMPLETE if self.decidable else Standing.OTHERS_MISSING
        missing = self.missing(number)
        if self.joined and not missing:
            return Standing.COMPLETE
        own = any(each.source_id == source_id and each.table != table for each in missing)
        return Standing.OWN_MISSING if own else Standing.OTHERS_MISSING

    @property
    def decidable(self) -> bool:
        """Whether the optimistic mode can decide anything (`dm.progress.shards.structures`, O6)."""
        return self.joined and all(each.known for each in self.members)

    def missing(self, number: int) -> list[Member]:
        """The shards that a DDL waits for."""
        return [
            each
            for each in self.members
            if max(each.ready, each.waived) < number and not (each.beyond and number == self.executed + 1)
        ]

    def waits_for_nobody(self, source_id: str, table: TableName) -> bool:
        """Whether a new table waits in vain: no DDL is open, and no other shard is there that could bring one.

        The first table that is let in defines the group's structure, so all waiting tables are compared with it again.
        """
        others = (each for each in self.members if not self._is(each, source_id, table))
        # An early table that is past the DDL it waited for is a shard like the others.
        return self.joined and not self.opened and all(each.early and each.ready > self.executed for each in others)

    def own(self, source_id: str, table: TableName) -> Member | None:
        """This shard of the source, if the group has it."""
        return next((each for each in self.members if self._is(each, source_id, table)), None)

    @staticmethod
    def _is(member: Member, source_id: str, table: TableName) -> bool:
        return member.source_id == source_id and member.table == table
