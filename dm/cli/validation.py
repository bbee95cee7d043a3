"""The text of `validation`."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.cli.validation_text import validation_errors, validators
from dm.plural import counted
from dm.verbs import validation as declared


@shows(declared.StartValidation)
def start(asked: declared.StartValidation, answer: Answer) -> None:
    """Warnings on stderr."""
    for warning in answer["warnings"]:
        printer.say(f"Warning: {warning}")
    printer.print_line(f"{asked.task or 'all tasks'}: validating")


@shows(declared.StopValidation)
def stop(asked: declared.StopValidation, _answer: Answer) -> None:
    """That it is done."""
    printer.print_line(f"{asked.task or 'all tasks'}: validated no more")


@shows(declared.ValidationStatus)
def status(_asked: declared.ValidationStatus, answer: Answer) -> None:
    """Validators, then tables."""
    validators(answer)


@shows(declared.ShowErrors)
def show_errors(_asked: declared.ShowErrors, answer: Answer) -> None:
    """Each row with both sides, and its statement."""
    validation_errors(answer)


@shows(declared.IgnoreError, declared.ResolveError, declared.ClearError)
def change_errors(asked: declared.ChangedError, answer: Answer) -> None:
    """How many."""
    words = {"ignore": "ignored", "resolve": "resolved", "clear": "forgotten"}[asked.operation]
    changed = answer["changed"]
    printer.print_line(f"{asked.task}: {counted(changed, 'error')} {'is' if changed == 1 else 'are'} {words}")


@shows(declared.UpdateValidation)
def update(asked: declared.UpdateValidation, _answer: Answer) -> None:
    """The place that holds now."""
    place = asked.cutover_binlog_pos or asked.cutover_binlog_gtid
    printer.print_line(f"{asked.task}: " + (f"validated up to {place}" if place else "there is no cutover"))
