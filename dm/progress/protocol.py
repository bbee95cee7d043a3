"""How a task survives any crash: the essay, which the code around this file implements.

`tests/testbed/progress_model.py` checks it exhaustively.

The problem. Rows, a position in the source's binlog and DDL must agree after a crash at any instant. Several apply
sessions commit independently. COMMITs lose their answers. Sessions of a dead or frozen process are still alive on the
target and may still commit.

What is stored, all of it on the target, in the meta schema, per task and source:

    worker rows      one per lane (control, ddl, atomic, worker-00.., and `keyless` for the ordered lane): epoch,
                     batch number, highest position
    checkpoint       DM's table: the global point L, the bound B (`exit_safe_*`), points and structures per table
    ordered tables   which target tables are changed in the source's order, and since when (`lane_rows.py`)
    undone changes   what the last run was given and certainly did not do (`takeover.py`)
    operators        a person's decisions about single events (`operators.py`)
    DDL intent       the piece about to be executed, with the structure before and the one expected after
    part records     which parts of a full load are in (`load_parts.py`)

Invariants.

I1  Every target transaction first updates its own lane's row and requires the epoch it started with. So a transaction
    of an older run can't commit once the epoch is raised. Raising it waits for open transactions, since they hold the
    row's lock. The row commits with the data: what a lane did is read, never guessed, even after a COMMIT without an
    answer.
I2  Everything up to L is committed. L is computed from completions in source order, and the control lane writes it.
I3  Nothing beyond B is committed. At the start of a run B := stored B joined with all worker rows. It is stored before
    the first dispatch: the run overwrites the worker rows with lower positions, so they can't answer a second time. B
    only grows until L covers it. The write of that L drops it.
I4  From L until what is processed covers B, changes of keyed tables are applied idempotently (safe mode: INSERT as
    REPLACE, UPDATE as DELETE + REPLACE, a missing row is no error). Row images are complete, so replaying every change
    of (L, B] in order of keys ends in the state at B, whatever subset of it was already there. A row touched in the
    window ends with its last image; a row not touched was never wrong. Outside the window every statement must match
    exactly the rows it names, or the task pauses.
I5  The ordered lane applies tables without a usable key in source order; its row holds the exact position. A restart
    skips their changes at or below that position. That is exactly once, so safe mode does not concern them. Tables
    that are merged with such a table use this lane, too, as soon as the run sees it, after a barrier. The switch point
    of a target table is stored first (`lane_rows.py`). So a replay skips the changes before it, which are done,
    and never changes a table in order if an earlier run may have changed its rows by a key.
I6  DDL is a barrier: all lanes are drained, then for each piece an intent is stored, then the piece is executed. The
    first intent commits with the L before its statement. The next intent, or the checkpoint after the whole statement,
    says that the piece is done. That checkpoint may wait for the first intent of the next statement and commit with it.
    It is stored before the next row is applied, when the source is idle, and after a second at the latest. After a
    crash the fence waits until the session that ran the piece has ended. Then: if the target matches *after*, the piece
    is done; if it matches *before*, run it; if it has all that the piece brings and more, another source of a merged
    table executed the piece and went on: it is done; otherwise pause. A piece that the target refused is marked: it was
    not executed, whatever a person does to the structure afterwards. If it is the first piece of an ALTER, the whole
    ALTER is announced and executed in place of all pieces, with its own number and structures. If that is refused, too,
    nothing was executed. If the structure can't show the effect, only an idempotent piece is run again.
I7  The structures stored with the checkpoint are those at L, because L passes a DDL only with what the DDL left.
I8  What an event stands for (its own statements, none, others: `operators.py`) is the same for every run that reads it.
    An operator is stored under the control lane's claim or lock before it counts, and never for an event that was
    applied or is being applied. The checkpoint that passes the event deletes it. A change of an operator deletes the
    intent of its event. The record that statements were injected before an event is stored with the structures they
    left.
I9  With `atomic-transactions` one lane, `atomic`, applies everything in source order, in transactions made of whole
    transactions of the source. So its row is exact for all tables, as the ordered lane's is for keyless ones. What is
    at or below it is skipped, and nothing is replayed that readers of the target have seen already. B and the ordered
    lane's row still cover what other runs, with several lanes, did beyond L. If such runs come later, they count this
    lane's row in both, and skip what is at or below it, too: a replay of it that is cut short would leave rows older
    than the row says.
I10 In a replay, what an earlier run certainly did not do is applied strictly, as outside the window. The run knows that
    of changes which lanes had not begun, and of batches that the target rolled back. It stores this when it ends in
    order.

A control session may send the claim and the statements of its transaction in one packet. So a fenced session may have
changed rows before it learns that it is fenced. It can't commit them, but it holds the locks of these rows, also those
of the checkpoint, until it has rolled back or ended.

A session is found without its number: each takes a named lock (`takeover.py`) for its lifetime, and the holder of the
lock is the session to end. That also works after a restart of the target, where numbers start again.

What it promises: keyed rows converge exactly, keyless rows are applied exactly once, nothing is skipped, per source. It
promises nothing about two sources that write one key of one target: they have no common order, unless the task asks for
one (`merge_order.py`).
"""
