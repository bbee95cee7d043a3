"""Whether a task and its opposite know each other, so that neither sends back what the other one has brought.

What the opposite writes to the source is left out by its progress there. So this account has to be able to read that,
the opposite has to read this task's target, and it has to name this task, or it would send this task's changes back.
One that has not begun has nothing to leave out yet; its own check finds this task. What this task writes to the target
is the opposite's to leave out: that is exact where the target's account may give its sessions numbers of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Final

from dm.errors import DMError, grant
from dm.ident import Ident, TableName
from dm.progress.opposite import Opposite, names, opposite_of
from dm.progress.opposite_place import contradiction
from dm.progress.opposite_sources import has_rows_of, read_by
from dm.task.precheck.context import Answers, CheckResult, Context, Server
from dm.task.progress import key_of

_SIDES: Final = ("source", "target")


def named_each_other(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the opposite's progress can be read, and whether that reads this target and names this task."""
    opposite, source = opposite_of(context.config), context.source.connection
    if opposite is None:
        yield answers.success()
        return
    if not context.target.facts.dialect.has_binlog:
        yield answers.failure(
            f"{context.target.facts.base_flavor} has no binlog, so no task can read this target as `opposite`",
            "take `opposite` away from `mysql-instances`",
        )
        return
    key = opposite.key
    for table in (*opposite.marking, key.session, key.sources, key.opposite, key.checkpoint):
        try:
            has_rows_of(source, table)
        except DMError as error:
            yield _unreadable(answers, opposite, table, error)
            return
    target = context.target
    reads = read_by(source, key, target.connection, target.facts)
    if not reads:
        yield answers.success(f"task {opposite.task} has not begun to follow its source: it has written nothing here")
        return
    if True not in reads.values():
        yield answers.failure(
            f"task {opposite.task}, named as `opposite`, does not read this target: what it writes to the source would"
            " not come to the target",
            "write the task that reads this target as `opposite`, or take the key away",
        )
        return
    found = _resolves_otherwise(context, answers, opposite.task, reads)
    if found is not None:
        yield found
        return
    own = key_of(context.config)
    if not names(source, opposite, own):
        schema = "" if own.meta_schema == opposite.meta_schema else f" and `opposite-meta-schema: {own.meta_schema}`"
        yield answers.failure(
            f"task {opposite.task} does not name this task as its opposite: it would send back what this task brings",
            f"write `opposite: {own.task}`{schema} under `mysql-instances` of its file, and start it again with that:"
            f" `dmctl stop-task {opposite.task}` and `dmctl start-task`",
        )
        return
    if _keeps_server_numbers(target):
        yield answers.warning(
            f"target account {target.account} may not set pseudo_thread_id: where somebody else does at the target, as"
            f" the output of mysqlbinlog does, task {opposite.task} may take a statement for this task's, and leave it"
            " out",
            f"{grant((target.facts.dialect.renumbers,), '*.*', target.account)} (at the target), then start the task"
            " again",
        )
        return
    if context.config.syncer.conflicts != "ignore" and (same := _same_numbers(context)):
        yield answers.warning(
            f"both servers give AUTO_INCREMENT the same values ({same}): rows that are inserted on both sides meet",
            "SET GLOBAL auto_increment_increment = 2, and auto_increment_offset = 1 on one side and 2 on the other; in"
            " the servers' option files, too",
        )
        return
    others = sorted(name for name, is_it in reads.items() if is_it is False and not name.startswith("~"))
    beside = f"; what it brings from {', '.join(others)} comes to this target" if others else ""
    yield answers.success(f"task {opposite.task} reads this target, and names this task{beside}")


def _resolves_otherwise(
    context: Context, answers: Answers, task: str, reads: Mapping[str, bool | None]
) -> CheckResult | None:
    """What keeps this task and its opposite from resolving conflicts alike; None if nothing does."""
    why = contradiction(context.source.connection, context.config, reads)
    if why:
        return answers.failure(
            f"task {task} {why}: the two sides would end with different rows",
            "`source-wins` belongs to `target-wins`, `pause` to `pause`, and each list to its mirror image; stop both"
            " tasks before a change, and start them with their new files",
        )
    if context.config.syncer.conflicts == "target-wins":
        missing = [
            name for name in ("REPLICATION SLAVE", "REPLICATION CLIENT") if not context.target.grants.globally(name)
        ]
        if missing:
            return answers.failure(
                f"target account {context.target.account} lacks {', '.join(missing)}: which rows the target has written"
                " is read from its binlog (`conflicts: target-wins`)",
                f"{grant(missing, '*.*', context.target.account)} (at the target)",
            )
        if (image := context.source.facts.binlog_row_image.upper()) != "FULL":
            return answers.failure(
                f"binlog_row_image is {image} at the source: the progress of task {task} can't be read from"
                " its binlog (`conflicts: target-wins`)",
                f"SET GLOBAL binlog_row_image = FULL (at the source), then start task {task} again",
            )
    return None


def _same_numbers(context: Context) -> str:
    """How both servers number rows, where two rows may get one number; else empty."""
    names = ("auto_increment_increment", "auto_increment_offset")
    said = [[int(server.variables[name]) for name in names] for server in (context.source, context.target)]
    (step, first), (other_step, other_first) = said
    common = gcd(step, other_step)
    if common > 1 and first % common != other_first % common:
        return ""
    return ", ".join(f"{role}: every {each}, from {start}" for role, (each, start) in zip(_SIDES, said, strict=True))


def _keeps_server_numbers(target: Server) -> bool:
    try:
        target.query("SET SESSION pseudo_thread_id = @@SESSION.pseudo_thread_id")
    except DMError as error:
        if error.name != "privilege-missing":
            raise
        return True
    return False


def _unreadable(answers: Answers, opposite: Opposite, table: TableName, error: DMError) -> CheckResult:
    return answers.failure(
        f"the progress of task {opposite.task}, named as `opposite`, can't be read from {table}: {error.message}",
        f"GRANT SELECT ON {Ident(opposite.meta_schema).sql}.* TO the source's account (at the source)",
    )
