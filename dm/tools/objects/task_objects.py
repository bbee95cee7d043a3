"""The objects of a task: listed, written as scripts, created. What `dmctl objects` and a cut-over call.

Rows that come from a source have what its triggers and events have done already. So triggers and events are created
when the task applies nothing any more (`apply` with their kinds), events disabled; `enable_events` comes last, when the
applications are at the target.

What is there is left as it is, equal or not. So a second `apply` changes nothing.

Scripts are for the `mysql` client, in the order of their names:

    mysql --binary-mode --comments < 2-routines.sql

With `--binary-mode` the client leaves bytes alone, and lines that begin like a command of its own. Each statement
stands alone between delimiters that it does not have, after the settings of its session. A script ends at the first
statement that is refused, and what came before is there: give the verb again for the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from dm.config.subtask import SubtaskConfig
from dm.errors import DMError
from dm.ident import Ident
from dm.session import state
from dm.text import visible
from dm.tools.objects.accounts.survey import (
    ComparedAccount,
    accounts_of,
    created_account,
    given_privileges,
    giving_mode,
    in_bytes,
)
from dm.tools.objects.adapted import Definers
from dm.tools.objects.at_target import enabling, session_of
from dm.tools.objects.stored import ACTING, KINDS, ROUTINES, Kind
from dm.tools.objects.survey import ComparedObject, ObjectSurvey

BEFORE_CUT_OVER: Final = frozenset(KINDS) - ACTING
ACCOUNT_KINDS: Final = ("account", "role", "grant")
_LATER: Final = "for the cut-over: run it when the task has applied everything and is stopped"
_FILES: Final[Sequence[tuple[str, Collection[str], Sequence[str]]]] = (
    ("1-accounts.sql", ("account", "role"), ()),
    ("2-routines.sql", ROUTINES, ()),
    ("3-views.sql", ("view",), ()),
    ("4-grants.sql", ("grant",), ()),
    ("5-triggers.sql", ("trigger",), (_LATER,)),
    ("6-events.sql", ("event",), (_LATER, "events are disabled: enable them when the applications are here")),
)
_DELIMITERS: Final = (b"$$", b"//", b";;", b"@@", b"~~", b"$dm$", b"$dm_end$", b"$dm_end_of_statement$")


class Written(NamedTuple):
    """A statement of a script."""

    title: str
    statement: bytes
    schema: str = ""  # where it is run
    session: Mapping[str, str] = {}


class Script(NamedTuple):
    """A file; `remarks` stand before its statements."""

    file: str
    remarks: Sequence[str]
    statements: Sequence[Written]


class TaskObjects:
    """Everything about the objects of one task, as of the moment it is opened. Raises DMError."""

    def __init__(self, subtasks: Sequence[SubtaskConfig], definers: Definers) -> None:
        self._survey = ObjectSurvey(subtasks, definers)
        try:
            self.compared = self._survey.compared()
        except BaseException:
            self._survey.close()
            raise
        self._accounts: list[ComparedAccount] | None = None

    @property
    def accounts(self) -> list[ComparedAccount]:
        """Accounts, roles and their privileges, read when they are first asked for."""
        if self._accounts is None:
            self._accounts, remarks = accounts_of(self._survey.sides, self._survey.target)
            self._survey.remarks += remarks
        return self._accounts

    def close(self) -> None:
        """End the sessions."""
        self._survey.close()

    @property
    def remarks(self) -> list[str]:
        """What concerns whole schemas."""
        return self._survey.remarks

    def scripts(self, directory: Path, kinds: Iterable[str] = KINDS) -> list[Path]:
        """Write what the target lacks as scripts, refused objects as remarks; gives the files."""
        wanted, found = set(kinds), []
        for file, of_file, remarks in _FILES:
            known: Sequence[ComparedObject | ComparedAccount] = self.compared
            if wanted.intersection(ACCOUNT_KINDS, of_file):
                known = self.accounts
            of_kind = [each for each in known if kind_of(each) in wanted.intersection(of_file)]
            refused = [
                f"not written: {title(each)}: {'; '.join(each.why)}" for each in of_kind if each.state == "refused"
            ]
            statements = [
                written for each in of_kind if each.state == "missing" for written in _written(each, self._giving)
            ]
            found.append(Script(file, [*remarks, *refused] if statements or refused else (), statements))
        return _written_to(directory, found)

    def create_accounts(self) -> int:
        """Create the accounts and roles that the target lacks; gives how many were created or refused."""
        return self._changed(("account", "role"), lambda each: created_account(each, self._run))

    def give_privileges(self) -> int:
        """Give the privileges that accounts of the target lack; gives how many of them were given or refused some."""
        return self._changed(("grant",), lambda each: given_privileges(each, self._run))

    def _changed(self, kinds: Collection[str], change: Callable[[ComparedAccount], ComparedAccount]) -> int:
        tried = 0
        for at, each in enumerate(self.accounts):
            if each.kind in kinds and each.state == "missing":
                self.accounts[at] = change(each)
                tried += 1
        return tried

    def _run(self, statement: bytes) -> str:
        return self._survey.writing.refusal(statement, self._giving, "")

    @property
    def _giving(self) -> dict[str, str]:
        return giving_mode(self._survey.target.facts.dialect)

    def apply(self, kinds: Iterable[Kind] = BEFORE_CUT_OVER) -> list[ComparedObject]:
        """Create what is missing of these kinds; gives those that were created or refused.

        An object may need another one in a way that its text does not tell. So what is refused is tried again as long
        as others are created.
        """
        wanted, done = set(kinds), list[ComparedObject]()
        left = [each for each in self.compared if each.name.kind in wanted and (each.state == "missing" or each.tried)]
        while left:
            refused = list[ComparedObject]()
            for each in left:
                assert each.wanted is not None
                words = self._survey.writing.create(each.wanted, each.name.schema)
                (refused if words else done).append(replace(each, why=(words,) if words else ()))
            if len(refused) == len(left):
                left = refused
                break
            left = refused
        found = [*self._survey.created(done), *(replace(each, state="refused") for each in left)]
        self._put(found)
        return found

    def try_acting(self) -> str:
        """Try missing triggers and events at the target now; gives why that is not possible, empty if it was done."""
        wanted = [
            each.wanted
            for each in self.compared
            if each.wanted is not None and each.name.kind in ACTING and each.state == "missing"
        ]
        try:
            tried = self._survey.tried(wanted)
        except DMError as error:
            if error.name != "privilege-missing":
                raise
            return f"triggers and events were not tried at the target: {error.message}; {error.workaround}"
        self._put(
            replace(each, state="refused", why=(tried[each.name].refusal,), tried=True)
            for each in self.compared
            if each.name in tried and tried[each.name].refusal
        )
        return ""

    def enable_events(self) -> list[ComparedObject]:
        """Enable the events that are enabled at the source; gives those that were enabled or refused."""
        done = []
        for each in self.compared:
            if each.name.kind != "event" or each.wanted is None or each.there is None:
                continue
            if each.wanted.source.status == "ENABLED" != each.there.status:
                words = self._survey.writing.refusal(enabling(each.wanted), session_of(each.wanted), each.name.schema)
                if words:
                    done.append(replace(each, state="refused", why=(words,)))
                else:
                    done.append(replace(each, there=replace(each.there, status="ENABLED")))
        self._put(done)
        return done

    def _put(self, changed: Iterable[ComparedObject]) -> None:
        known = {each.name: each for each in changed}
        self.compared = [known.get(each.name, each) for each in self.compared]


def kind_of(each: ComparedObject | ComparedAccount) -> str:
    """Its kind."""
    return each.name.kind if isinstance(each, ComparedObject) else each.kind


def title(each: ComparedObject | ComparedAccount) -> str:
    """Its kind and name."""
    return str(each.name) if isinstance(each, ComparedObject) else f"{each.kind} {each.name}"


def _written(each: ComparedObject | ComparedAccount, session: Mapping[str, str]) -> list[Written]:
    assert each.wanted is not None
    if isinstance(each, ComparedObject):
        return [Written(str(each.name), each.wanted.statement, each.name.schema, session_of(each.wanted))]
    if each.kind == "grant":
        return [Written(title(each), in_bytes(gift.statement), session=session) for gift in each.gifts]
    return [Written(title(each), each.wanted.statement)]


def _written_to(directory: Path, scripts: Sequence[Script]) -> list[Path]:
    """Write those that have a statement or remark; raises DMError where a file is there, or can't be written."""
    paths = []
    for script in scripts:
        if script.statements or script.remarks:
            path = directory / script.file
            try:
                directory.mkdir(parents=True, exist_ok=True)
                # Hashes of passwords may be in it.
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(_content(script))
            except OSError as error:
                why = error.strerror or str(error)
                raise DMError("objects-file-unwritable", file=path, why=why) from error
            paths.append(path)
    return paths


def _content(script: Script) -> bytes:
    pieces = [_remark(text) for text in script.remarks]
    usual = {"sql_mode": state.USUAL_MODE, "time_zone": "+00:00", "collation_connection": state.COLLATION}
    for written in script.statements:
        end = next(each for each in _DELIMITERS if each not in written.statement)
        session = {**usual, **written.session}
        session.setdefault("character_set_client", state.CHARSET)
        pieces += [b"\n", _remark(written.title)]
        pieces += [f"SET NAMES {state.CHARSET} COLLATE {state.COLLATION};\n".encode()]
        pieces += [f"USE {Ident(written.schema).sql};\n".encode()] if written.schema else []
        pieces += [f"{state.assignments({name: value})};\n".encode() for name, value in session.items()]
        pieces += [b"DELIMITER ", end, b"\n", written.statement, b"\n", end, b"\nDELIMITER ;\n"]
    return b"".join(pieces)


def _remark(text: str) -> bytes:
    return f"-- {visible(text)}".replace("\n", "\\n").replace("\r", "\\r").encode("utf-8", "replace") + b"\n"
