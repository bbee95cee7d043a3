"""What SHOW CREATE USER and SHOW GRANTS print, taken apart.

The texts are the servers' own, in their usual sql_mode. A hash may be any bytes. MySQL prints them as digits only where
it is told to, and TiDB as they are. So the hash is taken out of such a text before (`reading.py`).
No text is repeated in an error: it may hold a hash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import scan
from dm.tools.objects.accounts.stored import Login, Privilege
from dm.tools.objects.stored import Account

_CLAUSES: Final = (
    "REQUIRE", "WITH", "PASSWORD", "ACCOUNT", "FAILED_LOGIN_ATTEMPTS", "PASSWORD_LOCK_TIME", "ATTRIBUTE", "COMMENT",
)  # fmt: skip
_DEFAULTS: Final = frozenset(
    {
        "REQUIRE NONE", "ACCOUNT UNLOCK", "PASSWORD EXPIRE DEFAULT", "PASSWORD HISTORY DEFAULT",
        "PASSWORD REUSE INTERVAL DEFAULT", "PASSWORD REQUIRE CURRENT DEFAULT", "FAILED_LOGIN_ATTEMPTS 0",
        "PASSWORD_LOCK_TIME 0",
    }
)  # fmt: skip
_RENAMED: Final = {"BINLOG MONITOR": "REPLICATION CLIENT", "ALL": "ALL PRIVILEGES"}
_ON_ROUTINES: Final = frozenset({"FUNCTION", "PROCEDURE", "PACKAGE", "PACKAGE BODY"})


class AccountNotUnderstood(Exception):
    """A text has another form than the servers are known to print."""


class _AccountWords:
    """The lexemes of a text, read from left to right."""

    def __init__(self, text: str, context: SourceContext) -> None:
        try:
            self._lexemes = scan(text, context).lexemes
        except DMError:
            raise AccountNotUnderstood from None
        self._text, self.at = text, 0

    @property
    def left(self) -> bool:
        return self.at < len(self._lexemes)

    def peek(self, ahead: int = 0) -> str:
        """A word in upper case, or a symbol; empty for all else."""
        at = self.at + ahead
        if at >= len(self._lexemes) or self._lexemes[at].kind not in ("word", "symbol"):
            return ""
        return self._slice(at).upper()

    def take(self, *words: str) -> bool:
        """Whether these come next; passes them by."""
        found = all(self.peek(ahead) == word for ahead, word in enumerate(words))
        self.at += len(words) if found else 0
        return found

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise AccountNotUnderstood

    def name(self) -> str:
        """A name, quoted in one way or another or not at all."""
        if not self.left or self._lexemes[self.at].kind == "symbol":
            raise AccountNotUnderstood
        raw = self._slice(self.at)
        self.at += 1
        if raw[0] in "`'\"":
            quote, raw = raw[0], raw[1:-1].replace(raw[0] * 2, raw[0])
            return raw if quote == "`" else re.sub(r"\\(.)", r"\1", raw, flags=re.DOTALL)
        return raw

    def account(self) -> Account:
        user = self.name()
        return Account(user, self.name()) if self.take("@") else Account(user, "")

    def find(self, word: str) -> bool:
        """Go on to a word, or to the end."""
        self.until(lambda: self.peek() == word)
        return self.left

    def until(self, ends: Callable[[], bool]) -> str:
        """The text up to a place where that is so."""
        begin = self.at
        while self.left and not ends():
            self.at += 1
        return self._text[self._lexemes[begin].start : self._lexemes[self.at - 1].end] if self.at > begin else ""

    def _slice(self, at: int) -> str:
        return self._text[self._lexemes[at].start : self._lexemes[at].end]


def told_account(text: str, context: SourceContext) -> tuple[tuple[Login, ...], bool, dict[str, str]]:
    """The logins of SHOW CREATE USER, whether all are needed, and its clauses by their first words.

    Raises AccountNotUnderstood. Roles that the text names are left out: tables of the server have them.
    """
    words = _AccountWords(text, context)
    words.need("CREATE", "USER")
    words.account()
    logins, every = list[Login](), False
    if words.take("IDENTIFIED", "BY", "PASSWORD"):
        logins.append(Login("mysql_native_password", words.name().encode("utf-8", "surrogateescape")))
    elif words.take("IDENTIFIED", "VIA"):
        logins.append(_login(words, "USING"))
        while words.take("OR"):
            logins.append(_login(words, "USING"))
    elif words.take("IDENTIFIED", "WITH"):
        logins.append(_login(words, "AS"))
        while words.take("AND", "IDENTIFIED", "WITH"):
            logins.append(_login(words, "AS"))
            every = True
    else:
        logins.append(Login("mysql_native_password"))  # MariaDB: it has no password
    return tuple(logins), every, dict(_clauses(words))


def _login(words: _AccountWords, before_secret: str) -> Login:
    plugin = words.name()
    if not (words.take(before_secret) or words.take("AS")):
        return Login(plugin)
    secret = words.name()
    if re.fullmatch(r"0[xX](?:[0-9A-Fa-f]{2})+", secret):
        return Login(plugin, bytes.fromhex(secret[2:]))
    return Login(plugin, secret.encode("utf-8", "surrogateescape"))


def _clauses(words: _AccountWords) -> Iterator[tuple[str, str]]:
    while words.left:
        if words.take("DEFAULT", "ROLE"):
            words.account()
            while words.take(","):
                words.account()
            continue
        if not _clause_begins(words):
            raise AccountNotUnderstood
        key = words.name().upper()
        if key == "WITH":
            while words.peek().startswith("MAX_"):
                key = words.name().upper()
                yield key, f"{key} {words.until(lambda: words.peek().startswith('MAX_') or _clause_begins(words))}"
            continue
        if key == "PASSWORD":
            key = f"{key} {words.name().upper()}"
        clause = f"{key} {words.until(lambda: _clause_begins(words))}".strip()
        if clause not in _DEFAULTS:
            yield key, clause


def _clause_begins(words: _AccountWords) -> bool:
    return words.peek() in _CLAUSES or (words.peek(), words.peek(1)) == ("DEFAULT", "ROLE")


def told_privileges(
    lines: Sequence[str], account: Account, context: SourceContext
) -> tuple[frozenset[Privilege], tuple[str, ...]]:
    """What SHOW GRANTS gives to this account itself, and the lines that are of another kind.

    Grants of roles are left out: tables of the server have them. Raises AccountNotUnderstood.
    """
    found, unread = set[Privilege](), list[str]()
    for line in lines:
        words = _AccountWords(line, context)
        if words.take("REVOKE"):
            unread.append(line)
            continue
        if not words.take("GRANT"):
            continue  # SET DEFAULT ROLE
        given = [*_given(words)]
        if not words.take("ON"):
            continue  # roles
        if words.peek() != "*" and given == [("PROXY", "")]:
            unread.append(line)
            continue
        place = _place(words)
        words.need("TO")
        if _key(words.account()) != _key(account):
            continue  # of a role of it
        grantable = words.find("WITH") and words.take("WITH", "GRANT", "OPTION")  # MariaDB repeats how it logs in
        found |= {
            place._replace(word=word, column=column, grantable=grantable)
            for word, column in given
            if word != "USAGE" or grantable
        }
    # Of a table and its columns it is one option, which TiDB prints with the table alone.
    passed_on = {each.place for each in found if each.grantable and each.schema}
    all_passed_on = {each for each in found if each.place._replace(grantable=True) in passed_on}
    return frozenset(each._replace(grantable=True) for each in all_passed_on) | (found - all_passed_on), tuple(unread)


def _given(words: _AccountWords) -> Iterator[tuple[str, str]]:
    while True:
        begin = words.until(lambda: words.peek() in ("(", ",", "ON", "TO", "@")).upper()
        word = _RENAMED.get(begin, begin)
        if words.take("@"):  # of a role's name
            words.name()
        if words.take("("):
            yield word, words.name()
            while words.take(","):
                yield word, words.name()
            words.need(")")
        else:
            yield word, ""
        if not words.take(","):
            return


def _place(words: _AccountWords) -> Privilege:
    kind = ""
    if words.take("PACKAGE", "BODY"):
        kind = "PACKAGE BODY"
    elif words.peek() in _ON_ROUTINES and words.peek(1) != ".":
        kind = words.name().upper()
    elif words.peek(1) != ".":
        words.need("TABLE")
    if words.take("*"):
        words.need(".", "*")
        return Privilege("")
    schema = words.name()
    words.need(".")
    return Privilege("", kind=kind, schema=schema, name="" if words.take("*") else words.name())


def _key(account: Account) -> Account:
    return Account(account.user, account.host.lower())
