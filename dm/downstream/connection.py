"""One session at the target, in a fixed state, with errors that say whether trying again can help.

LOAD DATA LOCAL makes the server ask for a file by name, and a server that is not what it seems asks for any file, at
any time. So nothing here ever opens one: the driver's own answer stays switched off, and `send_data` answers with
bytes that it was given, whatever the name. Only a session that is made for it (`local_data`) offers it to the server
at all.

A session that is made for it (`several`) takes several statements in one packet: each has its own answer, and the
server runs none after one that failed. The others refuse what is more than one statement. Values come into statements
of such a session by our own literals (`composed`).

A statement that the server would not take whole (`max_allowed_packet`) is never sent: the server ends the session in
the middle of it, mostly before its reason can be read, and a session that is lost looks like one worth another try.

A connection that broke stays broken: nobody reconnects behind the caller's back, since the session's transaction, locks
and settings would silently be gone.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT, COMMAND
from pymysql.protocol import OKPacketWrapper

from dm.config.endpoint import Endpoint
from dm.downstream.failure import ERROR_DURING_COMMIT, connect_failure, failure, is_lost, number_of, packet_too_large
from dm.downstream.statements import DataOutcome, StatementResult, composed, data_outcome, outcome
from dm.errors import WHO, DMError, Grantee, nobody
from dm.mysql.dialect import Dialect, Flavor, dialect, flavor_of
from dm.session import state
from dm.session.answers import AnswerRows, Row, reads_answers
from dm.session.login import UNSOUND, garbled, is_garbled, login_error, open_connection

CONNECT_TIMEOUT: Final = 10
LOGIN_TIMEOUT: Final = 60  # seconds without a byte, also where a statement may compute for longer
READ_TIMEOUT: Final = 300  # seconds without a byte, DM's limit for one statement
_PATIENCE: Final = 12 * READ_TIMEOUT  # with one that reads and computes a large table

BEGIN: Final = b"START TRANSACTION"
ROW_EVENTS: Final = b"BINLOG "
_TIME_GOES: Final = b"SET SESSION timestamp = DEFAULT"

_STATEMENT_SHARE: Final = 1 << 20
_PACKET_MARGIN: Final = 4096
_UNTOLD: Final = ("connection-lost", "server-answer-garbled")  # what became of a COMMIT
_PACKET_ENDS: Final = 2  # a packet begins with the command's byte, and must be shorter than its limit


class TargetConnection:
    """A session at the target. One thread at a time, except for `abort`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        foreign_key_checks: bool = False,
        read_timeout: int | None = READ_TIMEOUT,
        role: str = "target",
        local_data: bool = False,
        several: bool = False,
    ) -> None:
        self.address = endpoint.address
        self._user = endpoint.user
        self._role = role
        self._checks = self._checking = foreign_key_checks
        try:
            # Any: the stubs lack what is needed of the driver here, the answer of the last statement above all.
            self._connection: Any = open_connection(
                endpoint,
                connect_timeout=CONNECT_TIMEOUT,
                login_timeout=LOGIN_TIMEOUT,
                read_timeout=read_timeout,
                client_flag=(CLIENT.LOCAL_FILES if local_data else 0) | (CLIENT.MULTI_STATEMENTS if several else 0),
            )
        except UNSOUND as error:
            raise login_error(error, endpoint, role) or connect_failure(
                error, self.address, self._user, role=role
            ) from None
        self._cursor = self._connection.cursor()
        self._packet = self._longest = sys.maxsize  # until the server has told
        self._together = several
        self._number = 0  # of the session, where the greeting need not have told it
        self.time_stops = False
        """Whether its time stands still after row events (`dm.syncer.apply.target_sessions`)."""
        self._stopped = False  # it does now
        try:
            self._has = self._begin(endpoint, foreign_key_checks=foreign_key_checks)
            self._learn()
            if self.dialect.settled:
                self._settle()
        except DMError:
            self.close()
            raise
        except UNSOUND as error:
            raw: Any = self._connection
            raw._force_close()
            raise garbled(error, self.address) from None

    def _begin(self, endpoint: Endpoint, *, foreign_key_checks: bool) -> dict[str, str]:
        """Put the session into its state, and tell it; raises `session-variable-refused` for the user's part."""
        greeting = str(self._connection.get_server_info())
        opening = state.opening(
            "writes",
            greeting,
            endpoint.session,
            foreign_key_checks=foreign_key_checks,
            expressions=endpoint.expression_values,
        )
        try:
            for statement in opening.statements:
                self.execute(statement)
        except DMError as error:
            raise state.refused_variable(error, endpoint, self._role) or error from None
        return dict(opening.values)

    @reads_answers
    def _learn(self) -> None:
        """Ask for what the server decides, and have changed what the account may change."""
        # Without SESSION: MariaDB before 10.8 has explicit_defaults_for_timestamp for the whole server only.
        version, folds, packet, buffer, explicit, *restricted = self.query(
            "SELECT VERSION(), @@lower_case_table_names, @@max_allowed_packet, @@net_buffer_length,"
            f" @@explicit_defaults_for_timestamp{state.later_asked(self._connection.get_server_info())}"
        )[0]
        self.version_text: str = str(version)
        self.flavor: Flavor = flavor_of(self.version_text)
        self.dialect: Dialect = dialect(self.flavor, self.version)
        self.folds_names: bool = int(folds) != 0
        """Whether names of schemas and tables are the same in upper and lower case."""
        self.null_is_now: bool = self.dialect.null_is_now or int(explicit) == 0
        """Whether NULL in a TIMESTAMP without NULL is the present moment; MariaDB takes it so under either setting."""
        self._packet = int(packet)
        # What fits into the buffer that the server has anyway is taken under any limit.
        self._longest = max(self._packet, int(buffer)) - _PACKET_ENDS
        self.statement_bytes = max(min(_STATEMENT_SHARE, self._packet - _PACKET_MARGIN), 1024)
        """How long a statement that could be split should get."""
        self.data_bytes = self._packet - 1
        """How long a packet of LOAD DATA may get: the server ends the session where one has all bytes of its limit."""
        for name, value in state.to_change(restricted, self._has).items():
            try:
                self.set({name: value})
            except DMError as error:
                if error.name != "privilege-missing":
                    raise

    @reads_answers
    def _settle(self) -> None:
        found = {str(name).lower(): str(value) for name, value in self.query(state.question(self.dialect))}
        # Not what the session has been given already, such as the source's values for expressions.
        others = {name: value for name, value in found.items() if self._has.get(name) != value}
        corrections = state.corrections(self.dialect, others)
        if corrections:
            self.execute(corrections)
        # Its numbers may have more bits than the greeting has room for.
        self._number = int(self.query("SELECT CONNECTION_ID()")[0][0])

    @property
    def version(self) -> int:
        """The server's version as executable comments count: 90704 for 9.7.4."""
        major, minor, patch = (int(part) for part in re.findall(r"\d+", self.version_text)[:3])
        return major * 10000 + minor * 100 + patch

    @property
    def connection_id(self) -> int:
        """The server's number of this session."""
        return self._number or int(self._connection.thread_id())

    @property
    def alive(self) -> bool:
        """Whether the session has not broken so far."""
        return bool(self._connection.open)

    def execute(self, sql: bytes | str, params: Sequence[object] | Mapping[str, object] | None = None) -> int:
        """Run one statement; gives the affected rows."""
        return self.run(sql, params).affected

    def run(self, sql: bytes | str, params: Sequence[object] | Mapping[str, object] | None = None) -> StatementResult:
        """Run one statement; gives all the server reported."""
        data = self.rendered(sql, params)
        self._have_time_go(data)
        self._send(data)
        return outcome(self._connection._result)

    def run_all(self, statements: Sequence[bytes], outcomes: list[StatementResult]) -> None:
        """Run statements, in as few round trips as the session allows; the first that fails is the last that is run.

        What the server reported of those before it stands in `outcomes`.
        """
        for part in self._packets(statements):
            self._run_together(part, outcomes)

    def _packets(self, statements: Iterable[bytes]) -> Iterator[list[bytes]]:
        """What is sent at a time."""
        part, size = list[bytes](), 0
        for sql in statements:
            # A server forgets during BINLOG that more is to come, so nothing may stand after it.
            ends = part and part[-1].startswith(ROW_EVENTS)
            if part and (ends or not self._together or size + len(sql) > self.statement_bytes):
                yield part
                part, size = [], 0
            part.append(sql)
            size += len(sql) + 1
        if part:
            yield part

    def _run_together(self, statements: list[bytes], outcomes: list[StatementResult]) -> None:
        connection, ahead = self._connection, self._ahead_of(statements)
        sent = [*ahead, *statements]
        self._stopped = self._stopped or (self.time_stops and sent[-1].startswith(ROW_EVENTS))
        self._send_together(sent)
        for at in range(len(sent)):
            if at >= len(ahead):
                outcomes.append(outcome(connection._result))
            if not connection._result.has_next:
                return
            self._attempt(connection.next_result, sent[at + 1])

    def run_scripts(self, scripts: Sequence[bytes]) -> None:
        """Run scripts of one or several statements each, in as few round trips as the session allows."""
        for part in self._packets(scripts):
            text = b";".join(part)
            self._have_time_go(text)
            self._send(text, part[0])
            while self._connection._result.has_next:
                self._attempt(self._connection.next_result, text)

    def _ahead_of(self, statements: Sequence[bytes]) -> list[bytes]:
        """What goes before them in their packet."""
        if not self._stopped or statements[0].startswith(ROW_EVENTS):
            return []
        size = sum(map(len, statements)) + len(statements) + len(_TIME_GOES)
        if not self._together or size > self.statement_bytes:
            self._have_time_go(statements[0])
            return []
        self._stopped = False
        return [_TIME_GOES]

    def query(self, sql: bytes | str, params: Sequence[object] | Mapping[str, object] | None = None) -> list[Row]:
        """The rows of one SELECT or SHOW."""
        data = self.rendered(sql, params)
        self._have_time_go(data)
        self._send(data)
        result = self._connection._result
        return AnswerRows((result.rows or ()) if result is not None else ())

    def query_bytes(self, sql: str) -> list[Row]:
        """The rows of a SHOW whose texts may be no UTF-8: as bytes."""
        connection = self._connection
        usual, connection.use_unicode = connection.use_unicode, False
        try:
            return self.query(sql)
        finally:
            connection.use_unicode = usual

    def query_patiently(self, sql: bytes) -> list[Row]:
        """The rows of a statement that may compute for long before it has one to give."""
        connection = self._connection
        usual, connection._read_timeout = connection._read_timeout, _PATIENCE
        try:
            return self.query(sql)
        finally:
            connection._read_timeout = usual

    def send_data(self, statement: bytes, pieces: Iterable[bytes]) -> DataOutcome:
        """Run a LOAD DATA LOCAL statement with these bytes (each piece below 16 MiB) as its file."""
        connection = self._connection
        try:
            connection._execute_command(COMMAND.COM_QUERY, statement)
            packet = connection._read_packet()
            if packet.is_load_local_packet():
                for piece in pieces:
                    connection.write_packet(piece)
                connection.write_packet(b"")
                packet = connection._read_packet()
            answer = OKPacketWrapper(packet)
        except UNSOUND as error:
            raise self._failed(error, statement) from None
        except BaseException:
            # The server still waits for the rest of the file.
            connection._force_close()
            raise
        told = data_outcome(answer)
        if told is None:
            raise self._failed(pymysql.err.InternalError("the answer to LOAD DATA has no counts"), statement)
        return told

    def has(self, name: str) -> str:
        """The value that a variable of `dm.session.state` has in this session, as `set` has last set it."""
        return self._has[name]

    def set(self, values: Mapping[str, str | int]) -> None:
        """Give the session's variables these values, by one statement, where it has other ones."""
        changed = {name: value for name, value in values.items() if self._has.get(name) != str(value)}
        if changed:
            self.execute(state.assignments(changed))
            self._has |= {name: str(value) for name, value in changed.items()}

    @contextmanager
    def as_set(self, values: Mapping[str, str | int]) -> Iterator[None]:
        """The same for a while; a session that broke is not put back."""
        before = {name: self._has[name] for name in values}
        self.set(values)
        try:
            yield
        finally:
            if self.alive:
                self.set(before)

    @property
    def checks_foreign_keys(self) -> bool:
        """Whether the session looks at foreign keys, unless a statement is to be run without."""
        return self._checks

    def check_foreign_keys(self, on: bool) -> None:
        """Whether the next statements look at foreign keys; without effect in a session that never does."""
        if self._checks and on is not self._checking:
            self.execute(f"SET SESSION foreign_key_checks = {int(on)}")
            self._checking = on

    @reads_answers
    def settings(self) -> dict[str, str]:
        """What the exactness of rows rests on, as the server has it for this session."""
        names = ",".join(f"'{name}'" for name in state.RECORDED)
        found = self.query(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
        return {str(name): str(value) for name, value in found}

    def begin(self) -> None:
        """Start a transaction."""
        self.execute(BEGIN)

    def commit(self) -> None:
        """Commit; raises `commit-outcome-unknown` when the answer got lost."""
        try:
            self._connection.query("COMMIT")
        except UNSOUND as error:
            mapped = self._failed(error, b"COMMIT")
            if mapped.name in _UNTOLD or number_of(error) == ERROR_DURING_COMMIT:
                unknown = DMError("commit-outcome-unknown", address=self.address, cause=mapped.cause)
                raise unknown.numbered(mapped.server_errno) from None
            raise mapped from None

    def rollback(self) -> None:
        """Roll back; on a broken session the server does it by itself."""
        if self.alive:
            try:
                self._connection.query("ROLLBACK")
            except UNSOUND:
                # The next START TRANSACTION would commit what is open. Without the session it can't.
                self._connection._force_close()

    def kill(self, connection_id: int) -> None:
        """End another session; one that has ended already is as good."""
        try:
            self._connection.query(f"KILL {int(connection_id)}")
        except UNSOUND as error:
            if error.args[:1] != (1094,):  # no such session
                raise self._failed(error, b"KILL") from None

    def abort(self) -> None:
        """Break the session from another thread: a call that waits in it fails at once."""
        handle = self._connection._sock
        if handle is not None:
            try:
                handle.shutdown(socket.SHUT_RDWR)
            except OSError:  # it was broken already
                return

    def close(self) -> None:
        """End the session."""
        if not self.alive:
            return
        try:
            self._connection._execute_command(COMMAND.COM_QUIT, b"")
        except (pymysql.err.Error, OSError):  # it ends either way
            pass
        finally:
            self._connection._force_close()

    def __enter__(self) -> TargetConnection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _have_time_go(self, data: bytes) -> None:
        """Before a statement that may ask what time it is."""
        if data.startswith(ROW_EVENTS):
            self._stopped = self.time_stops
        elif self._stopped:
            self._stopped = False
            self._send(_TIME_GOES)

    def _send(self, data: bytes, first: bytes = b"") -> None:
        """Send what goes into one packet, and read the answer to `first`, or to all of it."""
        if len(data) > self._longest:
            raise packet_too_large(data, f"max_allowed_packet is {self._packet}")
        self._attempt(partial(self._connection.query, data), first or data)

    def _send_together(self, statements: Sequence[bytes]) -> None:
        """Send statements in one packet, and read the answer to the first."""
        if sum(map(len, statements)) + len(statements) - 1 > self._longest:
            raise packet_too_large(b";".join(statements), f"max_allowed_packet is {self._packet}")
        self._attempt(partial(self._connection.query_together, statements), statements[0])

    def _attempt(self, call: Callable[[], object], data: bytes) -> None:
        try:
            call()
        except UNSOUND as error:
            raise self._failed(error, data) from None
        except BaseException:
            # Something struck while an answer was being read: what comes next on this connection has no meaning.
            self._connection._force_close()
            raise

    def rendered(self, sql: bytes | str, params: Sequence[object] | Mapping[str, object] | None) -> bytes:
        """The statement with its parameters in it."""
        if params is None:
            return sql if isinstance(sql, bytes) else sql.encode()
        text = sql.decode() if isinstance(sql, bytes) else sql
        if self._together:
            return composed(text, params)
        return str(self._cursor.mogrify(text, params)).encode("utf-8", "surrogateescape")

    def _failed(self, error: Exception, sql: bytes) -> DMError:
        if is_garbled(error) or is_lost(error):
            self._connection._force_close()
        return failure(error, self.address, sql, user=self._user, role=self._role, who=self._grantee)

    def _grantee(self) -> Grantee:
        """Whom the server takes the session for, asked when it has refused something: that has ended its answer."""
        try:
            self._connection.query(WHO)
            return Grantee.of(*self._connection._result.rows[0])
        except UNSOUND:
            self._connection._force_close()
            return nobody()
