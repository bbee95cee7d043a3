"""Tables that `extra-args` (-B, -T, -f) give to the dump, beside those that the lists give to a task that follows.

DM dumps the one and follows the other: the rows of a followed table that the dump leaves out are missing, and a dumped
table that nobody follows stands still. Here the lists decide both, so nothing is lost; what is left is that the file
asks for something else. What exists at the source tells, whatever the patterns are.
"""

from __future__ import annotations

from collections.abc import Iterator

from dm.plural import counted
from dm.task.precheck.context import Answers, Context, some
from dm.task.precheck.result import CheckResult


def dump_and_lists(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure where the options leave out what the lists have, a warning where they have what the lists leave out."""
    if not context.config.dumper.chooses or not (context.dumps and context.syncs):
        yield answers.success()
        return
    rules = context.rules
    chosen = frozenset(filter(rules.asked_of_dump, context.all_tables))
    left_out = [table for table in context.tables if table not in chosen]
    added = [table for table in context.all_tables if table in chosen and not rules.wanted(table)]
    if left_out:
        yield answers.failure(
            f"`extra-args` leave {counted(len(left_out), 'table')} out of the dump that the task follows: "
            f"{some(left_out)}",
            "exclude them by `block-allow-list` as well, or choose them in `extra-args`; to have them loaded and "
            "followed as the lists say: `ignore-checking-items: [dump_selection]`",
        )
    if added:
        yield answers.warning(
            f"`extra-args` choose {counted(len(added), 'table')} that the lists leave out: {some(added)}; the task "
            "neither loads nor follows them",
            "nothing; or add them to `block-allow-list`",
        )
    if not (left_out or added):
        yield answers.success()
