"""The text of `token`."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.verbs.tokens import CreateToken, ListTokens, RevokeToken


@shows(CreateToken)
def created(asked: CreateToken, answer: Answer) -> None:
    """The token alone, so that a script can keep it."""
    if answer["token"]:
        printer.print_line(answer["token"])
        printer.say(f"the token of {asked.bearer}; it is shown this once")
    else:
        printer.print_line(f"clients with the certificate of {asked.certificate} are {asked.bearer}")


@shows(ListTokens)
def listed(_asked: ListTokens, answer: Answer) -> None:
    """A line for each."""
    columns = ("bearer", "permission", "certificate", "created")
    printer.table("", columns, [[each[column] for column in columns] for each in answer["tokens"]])


@shows(RevokeToken)
def revoked(asked: RevokeToken, _answer: Answer) -> None:
    """A sentence."""
    printer.print_line(f"{asked.bearer} is refused from now on")
