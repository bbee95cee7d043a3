"""DM's encrypted passwords: what they look like, and the key that opens them.

`dmctl encrypt` of DM writes base64 of a random block, an `@` and the text under AES-256 in CFB mode with that block as
the start (tiflow, dm/pkg/encrypt). Nothing in it proves the key, so a wrong one gives other bytes and no error. That is
noticed only where those bytes are no text; a login that fails is the other sign.

The key is 32 bytes, 64 hexadecimal digits in a file: DM's `secret-key-path`. DM before 8.0 had one key for everybody in
its sources. It hides nothing, but files that were written with it are still about, so it is tried as well.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dm.errors import DMError

# Every DM before 8.0 (tiflow, dm/pkg/encrypt, until 2024).
PUBLIC_KEY: Final = bytes.fromhex("a529b7665997f043a30ac8fadcb51d6aa032c226ab5b7750530b12b8c1a16a48")

_BLOCK: Final = 16
_SEPARATOR: Final = b"@"
_KEY_TEXT: Final = re.compile(r"[0-9a-fA-F]{64}")
_KEY_FILE_LIMIT: Final = 1024


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A key of DM's cipher."""

    content: bytes

    @classmethod
    def read(cls, path: Path) -> SecretKey:
        """The key in a file; raises DMError `secret-key-unusable`."""
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read(_KEY_FILE_LIMIT)
        except OSError as error:
            raise DMError("secret-key-unusable", file=path, why=error.strerror or "unknown") from None
        if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise DMError("secret-key-unusable", file=path, why="other users of this machine can read it (chmod 600)")
        text = content.decode("ascii", "replace").strip()
        if not _KEY_TEXT.fullmatch(text):
            raise DMError("secret-key-unusable", file=path, why="it does not hold 64 hexadecimal digits")
        return cls(bytes.fromhex(text))

    def encrypt(self, plain: str) -> str:
        """The text as DM writes it; another one each time."""
        start = os.urandom(_BLOCK)
        return base64.b64encode(start + _SEPARATOR + self._applied(start, plain.encode(), encrypting=True)).decode()

    def decrypt(self, encrypted: bytes) -> str | None:
        """The text in what `encrypted` found; None where it can't be one, so that the key is another."""
        content = self._applied(encrypted[:_BLOCK], encrypted[_BLOCK + 1 :], encrypting=False)
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return None
        return text if text.isprintable() else None

    def _applied(self, start: bytes, content: bytes, *, encrypting: bool) -> bytes:
        # Not at the top: it takes longer than all else of `dmctl --help`.
        from cryptography.hazmat.decrepit.ciphers.modes import CFB
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256

        cipher = Cipher(AES256(self.content), CFB(start))
        context = cipher.encryptor() if encrypting else cipher.decryptor()
        return context.update(content) + context.finalize()


def encrypted(text: str) -> bytes | None:
    """The bytes of a text in the form of DM's encrypted passwords; None where it has another form."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if len(content) > _BLOCK + 1 and content[_BLOCK : _BLOCK + 1] == _SEPARATOR else None
