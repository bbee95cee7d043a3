"""Where a server is and how to log in: `from` of a source, `target-database` of a task."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, SecretStr, SerializationInfo, ValidationInfo, field_serializer

from dm.config.document import Scalar, YamlMap
from dm.config.scalar import Text, matching, whole, wrong, wrong_type
from dm.config.section import Issue, LoadContext, Section

MASK = "******"  # what DM prints for a password
PASSWORD_FILE_LIMIT = 4096  # bytes

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CONTENT_KEYS = "write the certificate to a file and name it with `{0}`"


def _readable(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, Scalar):
        if isinstance(value, str):
            return value
        raise wrong_type(value, "the path of a file")
    directory = info.context.directory if isinstance(info.context, LoadContext) else Path()
    path = directory / value.text
    try:
        with path.open("rb"):
            return str(path)
    except OSError as error:
        raise wrong("config-tls-file", "the path of a PEM file", why=error.strerror or "unknown") from None


def _secret(value: object, info: ValidationInfo) -> object:
    if isinstance(value, SecretStr):
        return value
    if isinstance(value, str):  # the wire form: resolved before, taken as it is
        return SecretStr(value)
    if not isinstance(value, Scalar):
        raise wrong_type(value, "a text")
    variable = _VARIABLE.fullmatch(value.text)
    if variable is None:
        return SecretStr(value.text)
    environ = info.context.environ if isinstance(info.context, LoadContext) else os.environ
    if variable[1] not in environ:
        raise wrong(
            "config-environment",
            suggestion="export it, or use `password-file`",
            variable=variable[1],
        )
    return SecretStr(environ[variable[1]])


FilePath = Annotated[str, BeforeValidator(_readable)]
Secret = Annotated[SecretStr, BeforeValidator(_secret)]


def referenced_variables(text: str) -> frozenset[str]:
    """Names of the environment variables that a file's text may refer to as `${NAME}`."""
    return frozenset(match[1] for match in _VARIABLE.finditer(text))


class Security(Section):
    """TLS: a CA alone verifies the server, all three files also identify the client."""

    place: ClassVar = "under `security`"
    refused: ClassVar = {
        "ssl-ca-bytes": _CONTENT_KEYS.format("ssl-ca"),
        "ssl-cert-bytes": _CONTENT_KEYS.format("ssl-cert"),
        "ssl-key-bytes": _CONTENT_KEYS.format("ssl-key"),
        "ssl-ca-base64": _CONTENT_KEYS.format("ssl-ca"),
        "ssl-cert-base64": _CONTENT_KEYS.format("ssl-cert"),
        "ssl-key-base64": _CONTENT_KEYS.format("ssl-key"),
        "cert-allowed-cn": "leave it out: the server's certificate must name the `host`",
    }

    ssl_ca: FilePath | None = None
    ssl_cert: FilePath | None = None
    ssl_key: FilePath | None = None

    def check(self) -> Iterator[Issue]:
        """A certificate needs its key, and both need a CA to verify the other side."""
        if bool(self.ssl_cert) != bool(self.ssl_key):
            missing = "ssl-key" if self.ssl_cert else "ssl-cert"
            yield Issue("config-missing-key", missing, details={"key": missing})
        elif self.ssl_cert and not self.ssl_ca:
            yield Issue("config-missing-key", "ssl-ca", details={"key": "ssl-ca"})


class Endpoint(Section):
    """One server with a login."""

    deprecated: ClassVar = {"max-allowed-packet": "leave it out: the server's own limit is used"}

    host: Annotated[str, matching(r"[^\s]+", "config-bad-value", "the name or address of a server")]
    port: Annotated[int, whole(1, 65535)] = 3306
    user: Text = "root"
    password: Secret = SecretStr("")
    session: dict[str, Text] = Field(default_factory=dict)
    security: Security | None = None

    @classmethod
    def file_keys(cls) -> list[str]:
        """Also `password-file`, which ends as the password."""
        return [*super().file_keys(), "password-file"]

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
                password = _password_from(context.directory / named.text, named, context)
                if password is not None:
                    data["password"] = SecretStr(password)
        session = data.get("session")
        if isinstance(session, YamlMap):
            lowered = session.subset(set())
            for name, value in session.items():
                lowered[name.lower()] = value
                lowered.key_marks[name.lower()] = session.mark_of(name)
            data["session"] = lowered

    @field_serializer("password")
    def _masked(self, value: SecretStr, info: SerializationInfo) -> str:
        reveal = isinstance(info.context, dict) and info.context.get("reveal") is True
        return value.get_secret_value() if reveal else MASK

    @property
    def address(self) -> str:
        """Host and port, as messages name a server."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _password_from(path: Path, named: Scalar, context: LoadContext) -> str | None:
    def problem(why: str) -> None:
        context.report.add(
            "config-password-file", named.mark, named.path, why=why, expected="a file that holds only the password"
        )

    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(PASSWORD_FILE_LIMIT + 1)
        password = content.decode()
    except OSError as error:
        problem(error.strerror or "unknown")
        return None
    except UnicodeDecodeError:
        problem("it is not UTF-8 text")
        return None
    password = password.removesuffix("\n").removesuffix("\r")
    if len(content) > PASSWORD_FILE_LIMIT or "\n" in password or "\0" in password:
        problem("it holds more than one line")
        return None
    if not password:
        problem("it is empty")
        return None
    if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        context.report.add(
            "config-no-effect",
            named.mark,
            named.path,
            key="password-file",
            why="other users of this machine can read the file",
            suggestion="chmod 600",
            warning=True,
        )
    return password
