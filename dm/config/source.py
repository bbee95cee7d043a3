"""The source file: one upstream server, with DM's keys and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, PrivateAttr

from dm.config.document import Scalar, YamlMap
from dm.config.endpoint import Endpoint
from dm.config.problem import Problem
from dm.config.rules import FilterRule
from dm.config.scalar import Flag, Text, checked, decimal, duration, matching, one_of, whole, wrong, wrong_type
from dm.config.section import Issue, LoadContext, Section, Transferred
from dm.gtid import GtidFormatError, GtidSet
from dm.mysql.dialect import LoggedFlavor

SaidFlavor = Literal["", LoggedFlavor]
RelaySync = Literal["always", "interval", "none"]

# A standby without a key of one of these groups takes the group from `from`.
_LOGIN = ({"user"}, {"password", "password-file"}, {"session"}, {"security"})

NAME_FORM = "letters, digits, `_`, `.` and `-`, not starting with `.`"
_SOURCE_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def _source_id(value: object) -> object:
    if not isinstance(value, Scalar):
        if isinstance(value, str):
            return value
        raise wrong_type(value, "a name")
    if not value.text:
        raise wrong("config-source-id-empty", "a unique name of this server")
    if len(value.text) > 32:
        raise wrong("config-source-id-too-long", "at most 32 characters")
    if not _SOURCE_ID.fullmatch(value.text):
        raise wrong("config-bad-name", NAME_FORM, value=repr(value.text))
    return value.text


def _gtid_set(text: str) -> None:
    try:
        GtidSet.parse(text)
    except GtidFormatError as error:
        raise wrong(
            "config-bad-gtid-set", "`uuid:1-9,...` (MySQL) or `domain-server-number,...` (MariaDB)", why=str(error)
        ) from None


SourceId = Annotated[str, BeforeValidator(_source_id)]
GtidText = Annotated[str, checked(_gtid_set)]
BinlogName = Annotated[
    str, matching(r"|[^/\0\s][^/\0]*\.[0-9]{6,}", "config-bad-value", "a binlog file name such as `mysql-bin.000001`")
]


class Purge(Section):
    """When relay files are removed."""

    place: ClassVar = "under `purge` in the source file"
    interval: Annotated[int, whole(0)] = 3600  # seconds between two looks
    expires: Annotated[int, whole(0)] = 0  # hours; 0 = never by age
    remain_space: Annotated[int, whole(0)] = 15  # GB; 0 = never by space
    pause_space: Annotated[float, decimal(0, 1_000_000)] = 1.0  # GB; ours: with less the relay waits; 0 = never


class Checker(Section):
    """When tasks that paused by an error are resumed."""

    place: ClassVar = "under `checker` in the source file"
    without_effect: ClassVar = {"check-interval": "a paused task is tried again when its wait is over"}
    idle_values: ClassVar = {"check-interval": ("5s",)}

    check_enable: Flag = True
    backoff_rollback: Annotated[float, duration(0.001)] = 300.0  # seconds
    backoff_max: Annotated[float, duration(0.001)] = 300.0
    # Not in DM's documentation, with DM's values as defaults.
    check_interval: Annotated[float, duration(0.001)] = 5.0
    backoff_min: Annotated[float, duration(0.001)] = 1.0
    backoff_factor: Annotated[float, decimal(1, 100)] = 2.0
    backoff_jitter: Flag = True

    def check(self) -> Iterator[Issue]:
        """The cap must not lie below the start."""
        if self.backoff_max < self.backoff_min:
            yield Issue("config-backoff", "backoff-max", expected=f"at least {self.backoff_min:g}s")


class SourceConfig(Section, Transferred):
    """One upstream server."""

    place: ClassVar = "in the source file"
    deprecated: ClassVar = {
        "auto-fix-gtid": "leave it out",
        "meta-dir": "leave it out: relay state stands beside the relay files",
        "charset": "leave it out: connections use utf8mb4",
        "tracer": "leave it out",
        "relay-ring-size": "it is gone, leave it out: tasks read the relay's files",
    }
    without_effect: ClassVar = {
        "enable": "a source is there until `dmctl operate-source stop`",
    }
    idle_values: ClassVar = {"enable": ("true",)}

    source_id: SourceId
    enable: Flag = True
    enable_gtid: Flag = False
    flavor: Annotated[SaidFlavor, one_of(SaidFlavor)] = ""  # empty: as the server says
    enable_relay: Flag = False
    relay_dir: Text = ""  # empty: below the daemon's state directory
    relay_binlog_name: BinlogName = ""
    relay_binlog_gtid: GtidText = ""
    relay_sync: Annotated[RelaySync, one_of(RelaySync)] = "interval"  # ours: when relay files are forced to disk
    server_id: Annotated[int, whole(0, 4294967295)] = 0  # 0: a free one is chosen
    case_sensitive: Flag | None = None  # None: by the server's lower_case_table_names
    endpoint: Endpoint
    standby: Endpoint | None = None  # ours, not DM's: a server of the same replication group
    purge: Purge = Purge()
    checker: Checker = Checker()
    filters: tuple[FilterRule, ...] = Field(default=())

    _warnings: tuple[Problem, ...] = PrivateAttr(default=())

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """What `standby` does not say about the login is as in `from`."""
        first, second = data.get("from"), data.get("standby")
        if isinstance(first, YamlMap) and isinstance(second, YamlMap):
            for keys in _LOGIN:
                if not any(key in second for key in keys):
                    for key in keys & first.keys():
                        second[key] = first[key]
                        second.key_marks[key] = first.mark_of(key)

    def check(self) -> Iterator[Issue]:
        """A standby needs GTIDs and another address; a warning tells of a start that `enable-gtid` makes void."""
        if self.standby is not None and not self.enable_gtid:
            yield Issue("config-standby-without-gtid", "standby")
        elif self.standby is not None and self.standby.address == self.endpoint.address:
            yield Issue(
                "config-bad-value", "standby", expected="another server", details={"value": self.standby.address}
            )
        if self.enable_gtid and self.relay_binlog_name:
            why = "with `enable-gtid: true` the relay starts from `relay-binlog-gtid`"
            yield Issue("config-no-effect", "relay-binlog-name", warning=True, details=_void("relay-binlog-name", why))
        if not self.enable_gtid and self.relay_binlog_gtid:
            why = "without `enable-gtid: true` the relay starts from `relay-binlog-name`"
            yield Issue("config-no-effect", "relay-binlog-gtid", warning=True, details=_void("relay-binlog-gtid", why))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What the reader of the file noticed without refusing it."""
        return self._warnings


def _void(key: str, why: str) -> dict[str, object]:
    return {"key": key, "why": why}
