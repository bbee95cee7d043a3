"""Passwords of a file: plain, a variable of the environment, encrypted by DM, or in a file of their own.

What DM prints in place of a password is told from one, so that nobody logs in with six asterisks. A text in the form of
DM's encrypted passwords is opened with the key file; what a variable or a password file holds is taken as it is. No
problem ever shows a value.

DM's encrypted passwords: what they look like, and the key that opens them.

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
from typing import Annotated, Final

from pydantic import BeforeValidator, SecretStr, ValidationInfo

from dm.config.document import Scalar
from dm.config.scalar import wrong, wrong_type
from dm.config.section import LoadContext
from dm.errors import DMError

MASK: Final = "******"  # what DM prints for a password
PASSWORD_FILE_LIMIT: Final = 4096  # bytes

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OR_PLAIN: Final = "or, where it is the password itself, give it by `${VARIABLE}` or `password-file`"


def referenced_variables(text: str) -> frozenset[str]:
    """Names of the environment variables that a file's text may refer to as `${NAME}`."""
    return frozenset(match[1] for match in _VARIABLE.finditer(text))


def demand_unmasked(text: str) -> None:
    """Raise the error of a value that DM has masked."""
    if text == MASK:
        raise wrong("config-masked")


def _secret(value: object, info: ValidationInfo) -> object:
    if isinstance(value, SecretStr):
        return value
    if isinstance(value, str):  # the wire form: resolved before, taken as it is
        return SecretStr(value)
    if not isinstance(value, Scalar):
        raise wrong_type(value, "a text")
    demand_unmasked(value.text)
    held = held_by_variable(value.text, info, "export it, or use `password-file`")
    if held is not None:
        return SecretStr(held)
    content = encrypted(value.text)
    return SecretStr(value.text if content is None else _opened(content, value, info))


def held_by_variable(text: str, info: ValidationInfo, suggestion: str = "export it") -> str | None:
    """What the variable holds that the text names as `${VARIABLE}`; None for another text, an error if it is unset."""
    variable = _VARIABLE.fullmatch(text)
    if variable is None:
        return None
    environ = info.context.environ if isinstance(info.context, LoadContext) else os.environ
    if variable[1] not in environ:
        raise wrong("config-environment", suggestion=suggestion, variable=variable[1])
    return environ[variable[1]]


def _opened(content: bytes, value: Scalar, info: ValidationInfo) -> str:
    """The password that DM has encrypted: with the key file's key, else with the one that older DM's share."""
    context = info.context
    path = context.key_file if isinstance(context, LoadContext) else None
    if path is not None and path.exists():
        try:
            plain = SecretKey.read(path).decrypt(content)
        except DMError as error:
            raise wrong("config-encrypted", error.workaround, why=error.message) from None
        if plain is not None:
            return plain
        why = f"the key in {path} is another one"
    else:
        why = "DM has encrypted it, and there is no key file" + (f" {path}" if path is not None else "")
    plain = SecretKey(PUBLIC_KEY).decrypt(content)
    if plain is None:
        raise wrong("config-encrypted", suggestion=_OR_PLAIN, why=why)
    if isinstance(context, LoadContext):
        context.report.add("config-public-key", value.mark, value.path, warning=True)
    return plain


Secret = Annotated[SecretStr, BeforeValidator(_secret)]


def password_from(path: Path, named: Scalar, context: LoadContext) -> str | None:
    """The password that a file holds; None when a problem was recorded."""

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
