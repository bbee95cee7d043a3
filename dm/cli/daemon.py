"""`dmctl shutdown`: the end of the daemon."""

from __future__ import annotations

from dm.cli import output as printer
from dm.cli.invocation import AddrOption, OutputOption, as_json, client_of


def shutdown(output: OutputOption = None, addr: AddrOption = None) -> None:
    """End the daemon; its tasks go on when it is started again."""
    client = client_of(addr)
    if not client.running():
        printer.say("no dm-worker runs")
        return
    answer = client.post("/api/v1/daemon/shutdown")
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.print_line(f"dm-worker (pid {answer['pid']}) ends")
