"""Where etcd is, and with what a member shows itself there: checked before anything is asked."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from dm.errors import DMError
from dm.tls import verifying


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """Where etcd is, and what is shown there; texts of PEM files, empty for none."""

    endpoints: tuple[str, ...]
    authority: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(
        cls,
        endpoints: str,
        files: Sequence[Path | None] = (None, None, None),
        user: str = "",
        password_file: Path | None = None,
    ) -> Self:
        """From the options; `files` are CA, certificate and key. Raises DMError."""
        found = tuple(each.strip().rstrip("/") for each in endpoints.split(",") if each.strip())
        for each in found:
            _demand_endpoint(each)
        if not found:
            raise DMError("etcd-endpoint-wrong", endpoint=endpoints)
        if bool(user) != (password_file is not None):
            hint = "--cluster-user NAME --cluster-password-file FILE"
            raise DMError("usage", problem="a user of etcd has a name and a file with the password", hint=hint)
        authority, certificate, key = ("" if file is None else _text(file) for file in files)
        password = "" if password_file is None else _text(password_file).strip("\r\n")
        return cls(found, authority, certificate, key, user, password)

    def context(self) -> ssl.SSLContext | None:
        """What verifies etcd's certificate; None where no endpoint has TLS. Raises DMError."""
        if not any(each.startswith("https:") for each in self.endpoints):
            return None
        try:
            if self.authority:
                return verifying(self.authority, self.certificate, self.key)
            if self.certificate:
                raise DMError("usage", problem="a certificate for etcd needs etcd's CA", hint="--cluster-ca FILE")
            return ssl.create_default_context()
        except (ssl.SSLError, ValueError) as error:
            raise DMError("etcd-certificate-unusable", cause=str(error)) from error

    def demand_private(self) -> None:
        """Refuse to send passwords in the clear to another host."""
        for each in self.endpoints:
            if each.startswith("http:") and not _loopback(urlsplit(each).hostname or ""):
                raise DMError("etcd-without-tls", endpoint=each)


def _demand_endpoint(text: str) -> None:
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port and not parts.path
    except ValueError:
        whole = False
    if not whole:
        raise DMError("etcd-endpoint-wrong", endpoint=text)


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name, which may be of any address


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise DMError("file-unreadable", file=file, cause=cause) from error
