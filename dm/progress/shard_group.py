"""What a group of shards is like at one moment: who belongs to it, who has come to which DDL, who is missing."""

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
    AGAIN = "it is held, and its event is to be read again: what it has waited for does not come"


# Why a table waits at its CREATE TABLE.
EARLY: Final = 1  # others have to execute what the shard waits for
WITH_ITS_MODEL: Final = 2  # it is to be created like a shard that is held, and waits for what that one does
WITH_THE_HELD: Final = 3  # shards of its source are held, whose statements the target has not had yet
ANEW: Final = 4  # what it has waited for does not come any more
GOES_ON: Final = (Standing.EXECUTED, Standing.COMPLETE)
READ_AGAIN: Final = (*GOES_ON, Standing.AGAIN)  # by a second pass


@dataclass(frozen=True, slots=True)
class Shard:
    """A source table and the target table that it goes into."""

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
    early: bool = False  # others have to execute what it waits for
    anew: bool = False  # it is held at an event at which it does not count
    waived: int = 0  # up to which DDL nobody waits for it
    known: bool = False  # its structure; the optimistic mode asks
    beyond: bool = False  # it is as the open DDL leaves a shard, and need not come to it (optimistic mode)


@dataclass(frozen=True, slots=True)
class Group:
    """A target table's shards at one moment."""

    executed: int
    members: tuple[Member, ...]
    joined: bool  # every source of the task
    begun: bool = False  # the next DDL is being executed; nobody is waited for any more
    opened: bool = False  # somebody has come to the next DDL

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
        """Whether the optimistic mode can decide anything (`dm.progress.shard_structures`, O6)."""
        return self.joined and all(each.known for each in self.members)

    def missing(self, number: int) -> list[Member]:
        """The shards that a DDL waits for."""
        return [
            each
            for each in self.members
            if max(each.ready, each.waived) < number and not (each.beyond and number == self.executed + 1)
        ]

    def waits_for_nobody(self, source_id: str, table: TableName) -> bool:
        """Whether a new table is alone: nobody is there, or may be, to execute what it would wait for."""
        others = (each for each in self.members if not self._is(each, source_id, table))
        # Behind what it has waited for, one is a shard like the others.
        return self.joined and not self.opened and all(each.early and each.ready > self.executed for each in others)

    def own(self, source_id: str, table: TableName) -> Member | None:
        """The shard of a source, if it is one of the group."""
        return next((each for each in self.members if self._is(each, source_id, table)), None)

    @staticmethod
    def _is(member: Member, source_id: str, table: TableName) -> bool:
        return member.source_id == source_id and member.table == table
