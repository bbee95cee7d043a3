"""Where a server is and how to log in: `from` of a source, `target-database` of a task.

`security` is the TLS of a connection, its certificates named as files or written into the file itself. DM takes a
certificate as bytes first (`ssl-ca-bytes`, a list of numbers or YAML's `!!binary`), then as base64 (`ssl-ca-base64`),
then from the file that `ssl-ca` names; so do we. Contents travel with the configuration, like passwords; files are read
by whoever connects.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, Field, SecretStr, SerializationInfo, ValidationInfo, field_serializer

from dm.config.document import Scalar, YamlList, YamlMap, shown_key
from dm.config.scalar import Flag, Text, matching, whole, wrong, wrong_type
from dm.config.secret import MASK, Secret, demand_unmasked, held_by_variable, password_from
from dm.config.section import Issue, LoadContext, Section
from dm.mysql.dialect.tidb import VARIABLES

WRITTEN_BY_DM: Final = "tidb_txn_mode"  # into every `session` that it prints

_TARGET: Final = "target-database."  # may be a TiDB: a precheck says what becomes of its variables
_PLACES: Final = "session-places"
_EXPRESSIONS: Final = "expression-values"


_PARTS: Final = ("ssl-ca", "ssl-cert", "ssl-key")
_PEM: Final = "-----BEGIN "
_EXPECTED: Final = "the text of a PEM file, its base64, `${VARIABLE}` with either, or a list of its bytes"


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


def _pem(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str | SecretStr):  # the wire form
        return value
    if isinstance(value, YamlList):
        content = _bytes_of(value)
    elif isinstance(value, Scalar):
        demand_unmasked(value.text)
        held = held_by_variable(value.text, info)  # no base64 has a `$`
        text = value.text if held is None else held
        content = text.encode() if _PEM in text else _decoded(text)
    else:
        raise wrong_type(value, _EXPECTED)
    text = content.decode("ascii", "replace")
    if _PEM not in text:
        raise wrong("config-tls-content", _EXPECTED)
    return SecretStr(text)


def _bytes_of(numbers: YamlList) -> bytes:
    try:
        return bytes(int(number.text) for number in numbers)
    except (AttributeError, ValueError):
        raise wrong("config-tls-content", "numbers from 0 to 255") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise wrong("config-tls-content", _EXPECTED) from None


FilePath = Annotated[str, BeforeValidator(_readable)]
Pem = Annotated[SecretStr, BeforeValidator(_pem)]


class Security(Section):
    """TLS: a CA alone verifies the server, all three parts also identify the client."""

    place: ClassVar = "under `security`"
    unset_values: ClassVar = dict.fromkeys((*_PARTS, *(f"{part}-bytes" for part in _PARTS)), ("",))

    ssl_ca: FilePath | None = None
    ssl_cert: FilePath | None = None
    ssl_key: FilePath | None = None
    ssl_ca_bytes: Pem | None = None
    ssl_cert_bytes: Pem | None = None
    ssl_key_bytes: Pem | None = None
    cert_allowed_cn: tuple[Text, ...] = ()
    get_server_public_key: Flag = False

    @classmethod
    def file_keys(cls) -> list[str]:
        """Also the contents as base64, which end as bytes."""
        return [*super().file_keys(), *(f"{part}-base64" for part in _PARTS)]

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """Of each part keep the form that counts."""
        for part in _PARTS:
            forms = (f"{part}-bytes", f"{part}-base64", part)
            given = [form for form in forms if not cls._idle(form, data.get(form, YamlList(data.mark, data.path)))]
            for form in forms:
                if form not in given[:1]:
                    data.pop(form, None)
            if given[:1] == [f"{part}-base64"]:
                data[f"{part}-bytes"] = data.pop(f"{part}-base64")
                data.key_marks[f"{part}-bytes"] = data.mark_of(f"{part}-base64")

    def check(self) -> Iterator[Issue]:
        """A certificate needs its key, and both need a CA to verify the other side; so do names."""
        certificate, key = self.ssl_cert or self.ssl_cert_bytes, self.ssl_key or self.ssl_key_bytes
        if bool(certificate) != bool(key):
            missing = "ssl-key" if certificate else "ssl-cert"
            yield Issue("config-missing-key", missing, details={"key": missing})
        elif not self.verifies and (certificate or self.cert_allowed_cn):
            yield Issue("config-missing-key", "ssl-ca", details={"key": "ssl-ca"})

    @field_serializer("ssl_ca_bytes", "ssl_cert_bytes", "ssl_key_bytes")
    def _masked(self, value: SecretStr | None, info: SerializationInfo) -> str | None:
        reveal = isinstance(info.context, dict) and info.context.get("reveal") is True
        return None if value is None else value.get_secret_value() if reveal else MASK

    @property
    def verifies(self) -> bool:
        """Whether the server has to prove who it is."""
        return bool(self.ssl_ca or self.ssl_ca_bytes)

    def context(self) -> ssl.SSLContext | None:
        """What connections use; None without a CA. Raises OSError or ValueError where a certificate is unusable."""
        from dm.tls import verifying  # with the driver, which a reader of files has no use for

        authority = _text(self.ssl_ca_bytes, self.ssl_ca)
        if not authority:
            return None
        certificate, key = _text(self.ssl_cert_bytes, self.ssl_cert), _text(self.ssl_key_bytes, self.ssl_key)
        return verifying(authority, certificate, key, self.cert_allowed_cn)


def _text(content: SecretStr | None, path: str | None) -> str:
    if content is not None:
        return content.get_secret_value()
    return "" if path is None else Path(path).read_text(encoding="ascii", errors="replace")


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
        return address(self.host, self.port)


def address(host: str, port: int) -> str:
    """A server as messages name it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
