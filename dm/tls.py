"""TLS: how connections are encrypted, and whose certificate is looked at.

Without a CA connections are encrypted where the server can, and nobody's certificate is looked at. The driver would
make a context for each connection and load the system's certificates into it, which takes longer than all else of a
login (50 to 90 ms of CPU), only to compare nothing with them. So one empty context serves all connections. It takes
TLS 1.0 as well, and servers that say nothing of safe renegotiation (RFC 5746). yaSSL knows no more (MySQL before
5.7.28, MariaDB before 10.4 as their makers built them). Nothing is lost by that: nobody's certificate is looked at, so
anyone in between could be the server as well.

With a CA it is TLS 1.2 or newer. The server's certificate must come from the CA and must name the host. Where names
are allowed (`cert-allowed-cn`), it must bear one of those as its common name instead. The driver looks at no common
name, so the socket does, as soon as the handshake has told it: before a password is sent.

Certificates are texts here, whether they stood in files or in the configuration. OpenSSL takes a client's certificate
and key from a file only, which is one in memory then.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

_COMMON_NAME: Final = "commonName"
_LEGACY_SERVER_CONNECT: Final = 0x4  # SSL_OP_LEGACY_SERVER_CONNECT, which Python names from 3.12 on


@cache
def encrypting_only() -> ssl.SSLContext:
    """The context that asks for no certificate; no thread changes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.options |= _LEGACY_SERVER_CONNECT
    return context


def verifying(authority: str, certificate: str, key: str, names: Sequence[str] = ()) -> ssl.SSLContext:
    """The context of a client of that CA; raises ssl.SSLError, or ValueError, where a text is no PEM.

    `certificate` and `key` may be empty. With `names` the server's common name must be one of them.
    """
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority)
    if names:
        context.check_hostname = False
        context.common_names = frozenset(name.strip() for name in names)
        context.sslsocket_class = _NamedServer
    if certificate:
        # Not through a file's descriptor that others could open: it is gone with this process, and not on any disk.
        descriptor = os.memfd_create("dm-certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, f"{certificate}\n{key}\n".encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    return context


class _Context(ssl.SSLContext):
    """A context that knows the common names that a server may have."""

    common_names: frozenset[str] = frozenset()
    names_found: list[str]
    """Where only the names of the certificate are asked for."""


def naming(context: ssl.SSLContext) -> tuple[ssl.SSLContext, list[str]]:
    """The same context for a connection that ends once the list has the names in the server's certificate."""
    assert isinstance(context, _Context)
    context.check_hostname = False
    context.sslsocket_class = _Named
    context.names_found = []
    return context, context.names_found


class _NamedServer(ssl.SSLSocket):
    """A socket that ends where the server's certificate bears another name."""

    def do_handshake(self, block: bool = False) -> None:
        """The handshake, and a look at who it was with."""
        super().do_handshake(block)
        allowed = self.context.common_names if isinstance(self.context, _Context) else frozenset()
        subject: Any = (self.getpeercert() or {}).get("subject", ())
        found = [value for part in subject for name, value in part if name == _COMMON_NAME]
        if allowed.isdisjoint(found):
            shown = ", ".join(found) or "none"
            raise ssl.SSLCertVerificationError(
                f"the server's certificate has the common name {shown}, and `cert-allowed-cn` does not list it"
            )


class _Named(ssl.SSLSocket):
    """A socket that reads the names in the server's certificate, and ends."""

    def do_handshake(self, block: bool = False) -> None:
        """The handshake alone."""
        super().do_handshake(block)
        certificate: Any = self.getpeercert() or {}
        assert isinstance(self.context, _Context)
        self.context.names_found += [f"{kind} {name}" for kind, name in certificate.get("subjectAltName", ())]
        self.context.names_found += [
            f"common name {value}"
            for part in certificate.get("subject", ())
            for name, value in part
            if name == _COMMON_NAME
        ]
        raise ssl.SSLError("only the names were asked for")
