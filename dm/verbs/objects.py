"""The verb of what is not a table: views, routines, triggers, events, accounts and their privileges."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from dm.errors import DMError
from dm.verbs.declaration import DIRECTORY, Record, Sources, Task, Verb, option, shape

OBJECTS: Final = shape("ObjectsTold", taskName=str, objects=list[Record], remarks=list[str], files=list[str], tried=int)

Kinds = tuple[Literal["view", "routine", "trigger", "event", "account", "grant"], ...]


class Objects(Verb, name="objects", route="POST tasks/{task}/objects", answer=OBJECTS):
    """Compare and create views, triggers, accounts and others. Exit status 0: all alike, 1: not, 2: an error."""

    task: Task
    kinds: Annotated[
        Kinds, option("--kind", "only these: view, routine, trigger, event, account or grant; may be repeated")
    ] = ()
    definers: Annotated[
        tuple[str, ...],
        option(
            "--definer",
            "keep (default), leave (it becomes the account that creates the object), an account as user@host for all,"
            " or old@host=new@host; may be repeated",
        ),
    ] = ()
    sql: Annotated[str, option("--sql", "a directory for scripts of what the target lacks", DIRECTORY)] = ""
    apply: Annotated[
        bool,
        option("--apply", "create what the target lacks; triggers and events only with --kind, from a paused task"),
    ] = False
    enable_events: Annotated[
        bool, option("--enable-events", "enable the target's events that are enabled at the source")
    ] = False
    sources: Sources = ()

    def asks_servers_alone(self) -> bool:
        """Objects are changed at the target while no stream of the task runs."""
        return not (self.apply or self.enable_events)

    def demand_consistent(self) -> None:
        """Raise DMError where several things are to be done."""
        if sum(map(bool, (self.sql, self.apply, self.enable_events))) > 1:
            raise DMError(
                "usage",
                problem="--sql, --apply and --enable-events are given together",
                hint="give one at a time",
            )
