"""Verbs of tokens: who may ask this daemon through a port."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from dm.verbs.declaration import READS, Verb, VerbGroup, argument, option, shape

TOKEN: Final = shape("TokenCreated", bearer=str, token=str)
TOKENS: Final = shape("TokensListed", tokens=list[dict[str, str]])

GROUPS = (VerbGroup("token", "Create, list and revoke tokens of ports."),)

Bearer = Annotated[str, argument("a name of a person or a program", name="name")]


class CreateToken(Verb, name="token create", route="POST tokens", answer=TOKEN):
    """Let somebody ask through a port. The token is shown once."""

    bearer: Bearer
    allowed: Annotated[
        Literal["read", "operate", "change"],
        option("--permission -p", "operate: pause, resume, compare; change: all, files and rows included"),
    ] = "read"
    certificate: Annotated[
        str, option("--certificate", "in place of a token: the common name in the client's certificate (--ssl-ca)")
    ] = ""


class ListTokens(Verb, name="token list", route="GET tokens", permission=READS, answer=TOKENS):
    """Show who may ask through a port."""


class RevokeToken(Verb, name="token revoke", route="DELETE tokens/{bearer}"):
    """Refuse this name from now on."""

    bearer: Bearer
