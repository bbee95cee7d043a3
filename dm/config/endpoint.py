"""Where a server is and how to log in: `from` of a source, `target-database` of a task."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field, SecretStr, SerializationInfo, field_serializer

from dm.config.document import Scalar, YamlMap, shown_key
from dm.config.scalar import Text, matching, whole
from dm.config.secret import MASK, Secret, password_from
from dm.config.section import LoadContext, Section
from dm.config.security import Security
from dm.mysql.dialect.tidb import VARIABLES

WRITTEN_BY_DM: Final = "tidb_txn_mode"  # into every `session` that it prints

_TARGET: Final = "target-database."  # may be a TiDB: a precheck says what becomes of its variables
_PLACES: Final = "session-places"
_EXPRESSIONS: Final = "expression-values"


class Endpoint(Section):
    """One server with a login."""

    deprecated: ClassVar = {"max-allowed-packet": "leave it out: the server's own limit is used"}
    unset_values: ClassVar = {"user": ("",)}

    host: Annotated[str, matching(r"[^\s]+", "config-bad-value", "the name or address of a server")]
    port: Annotated[int, whole(1, 65535)] = 3306
    user: Text = "root"
    password: Secret = SecretStr("")
    session: dict[str, Text] = Field(default_factory=dict)
    session_places: dict[str, str] = Field(default_factory=dict)  # file and line of each session variable
    expression_values: dict[str, str] = Field(default_factory=dict)  # of a source, for sessions of its task's target
    security: Security | None = None

    @classmethod
    def file_keys(cls) -> list[str]:
        """Also `password-file`, which ends as the password; what no file says is no key."""
        return [*(key for key in super().file_keys() if key not in (_PLACES, _EXPRESSIONS)), "password-file"]

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """Take the password from its file, and the names of session variables in lower case."""
        named = data.pop("password-file", None)
        if named is not None:
            mark, path = data.mark_of("password-file"), data.path_of("password-file")
            if "password" in data:
                context.report.add("config-either-or", mark, path, key="password-file", other="password")
            elif not isinstance(named, Scalar):
                context.report.add(
                    "config-wrong-type", mark, path, found="mapping or list", expected="the path of a file"
                )
            else:
                password = password_from(context.directory / named.text, named, context)
                if password is not None:
                    data["password"] = SecretStr(password)
        session = data.get("session")
        if isinstance(session, YamlMap):
            lowered = session.subset(set())
            for name, value in session.items():
                lowered[name.lower()] = value
                lowered.key_marks[name.lower()] = session.mark_of(name)
                mark, path = session.mark_of(name), session.path_of(shown_key(name))
                not_for_sources = name.lower().startswith(VARIABLES) and name.lower() != WRITTEN_BY_DM
                if not_for_sources and not path.startswith(_TARGET):
                    why = "it is a variable of TiDB, and a source gets none"
                    context.report.add("config-no-effect", mark, path, key=shown_key(name), why=why, warning=True)
            data["session"] = lowered
            data[_PLACES] = {name: f"{context.report.file}:{mark.line}" for name, mark in lowered.key_marks.items()}

    @field_serializer("password")
    def _masked(self, value: SecretStr, info: SerializationInfo) -> str:
        reveal = isinstance(info.context, dict) and info.context.get("reveal") is True
        return value.get_secret_value() if reveal else MASK

    @property
    def address(self) -> str:
        """Host and port, as messages name a server."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
