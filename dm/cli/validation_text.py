"""The answers of `dmctl validation`, for people."""

from __future__ import annotations

from dm.cli.client import Answer
from dm.cli.output import print_line
from dm.cli.status_text import error_lines


def validators(answer: Answer) -> None:
    """`validation status`: a paragraph for each validator, then the tables that are not validated."""
    for each in answer["validators"]:
        print_line(
            f"{each['source']}: {each['stage']}, mode {each['mode']}, at {each['validatorBinlog'] or 'no place'}"
        )
        print_line(f"  read    {each['processedRowsStatus']}")
        print_line(f"  pending {each['pendingRowsStatus']}")
        print_line(f"  errors  {each['errorRowsStatus']}")
        if each.get("cutoverBinlogPos") or each.get("cutoverBinlogGtid"):
            print_line(f"  cutover {each['cutoverBinlogPos'] or each['cutoverBinlogGtid']}")
        if each.get("detail"):
            print_line(f"  {each['detail']}")
        for error in (each["result"] or {}).get("errors") or ():
            print_line("\n".join(error_lines(each["source"], error)))
    for table in answer["tableStatuses"]:
        words = f": {table['message']}" if table["message"] else ""
        print_line(f"{table['source']} {table['srcTable']} -> {table['dstTable']}: {table['stage']}{words}")


def validation_errors(answer: Answer) -> None:
    """`validation show-error`: each row that is wrong, and the statement that mends it."""
    if not answer["error"]:
        print_line("no such rows are known")
    for each in answer["error"]:
        names = dict.fromkeys((each["srcTable"], each["dstTable"]))
        print_line(f"{each['id']}: {each['errorType']}, {each['status']}, {each['source']} {' -> '.join(names)}")
        print_line(f"  {each['message']}")
        print_line(f"  source {each['srcData']}")
        print_line(f"  target {each['dstData']}")
        if each["fix"]:
            print_line(f"  fix    {each['fix']}")
