"""`security`: TLS of a connection, its certificates named as files or written into the file itself.

DM takes a certificate as bytes first (`ssl-ca-bytes`, a list of numbers or YAML's `!!binary`), then as base64
(`ssl-ca-base64`), then from the file that `ssl-ca` names; so do we. Contents travel with the configuration, like
passwords; files are read by whoever connects.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, SecretStr, SerializationInfo, ValidationInfo, field_serializer

from dm.config.document import Scalar, YamlList, YamlMap
from dm.config.scalar import Flag, Text, wrong, wrong_type
from dm.config.secret import MASK, demand_unmasked
from dm.config.section import Issue, LoadContext, Section

_PARTS: Final = ("ssl-ca", "ssl-cert", "ssl-key")
_PEM: Final = "-----BEGIN "
_EXPECTED: Final = "the text of a PEM file, its base64, or a list of its bytes"


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


def _pem(value: object) -> object:
    if isinstance(value, str | SecretStr):  # the wire form
        return value
    if isinstance(value, YamlList):
        content = _bytes_of(value)
    elif isinstance(value, Scalar):
        demand_unmasked(value.text)
        content = value.text.encode() if _PEM in value.text else _decoded(value.text)
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
