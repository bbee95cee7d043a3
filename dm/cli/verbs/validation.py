"""The text of `validation`."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.caller import Answer, shows
from dm.text import counted
from dm.verbs import validation as declared
from dm.worker.status_text import error_lines


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
    """A paragraph for each validator, then the tables that are not validated."""
    for each in answer["validators"]:
        printer.print_line(
            f"{each['source']}: {each['stage']}, mode {each['mode']}, at {each['validatorBinlog'] or 'no place'}"
        )
        printer.print_line(f"  read    {each['processedRowsStatus']}")
        printer.print_line(f"  pending {each['pendingRowsStatus']}")
        printer.print_line(f"  errors  {each['errorRowsStatus']}")
        if each.get("cutoverBinlogPos") or each.get("cutoverBinlogGtid"):
            printer.print_line(f"  cutover {each['cutoverBinlogPos'] or each['cutoverBinlogGtid']}")
        if each.get("detail"):
            printer.print_line(f"  {each['detail']}")
        for error in (each["result"] or {}).get("errors") or ():
            printer.print_line("\n".join(error_lines(each["source"], error)))
    for table in answer["tableStatuses"]:
        words = f": {table['message']}" if table["message"] else ""
        printer.print_line(f"{table['source']} {table['srcTable']} -> {table['dstTable']}: {table['stage']}{words}")


@shows(declared.ShowErrors)
def show_errors(_asked: declared.ShowErrors, answer: Answer) -> None:
    """Each row that is wrong, and the statement that mends it."""
    if not answer["error"]:
        printer.print_line("no such rows are known")
    for each in answer["error"]:
        names = dict.fromkeys((each["srcTable"], each["dstTable"]))
        printer.print_line(
            f"{each['id']}: {each['errorType']}, {each['status']}, {each['source']} {' -> '.join(names)}"
        )
        printer.print_line(f"  {each['message']}")
        printer.print_line(f"  source {each['srcData']}")
        printer.print_line(f"  target {each['dstData']}")
        if each["fix"]:
            printer.print_line(f"  fix    {each['fix']}")


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
