"""How a task survives any crash: the essay. The code around this file implements it, `model.py` checks it exhaustively.

The problem. Rows, a position in the source's binlog and DDL must agree after a crash at any instant, with several apply
sessions committing independently, with COMMITs whose answer got lost, and with sessions of a dead or frozen process
that are still alive on the target and may still commit.

What is stored, all of it on the target, in the meta schema, per task and source:

    worker rows      one per lane (control, ddl, keyless, worker-00..): epoch, batch number, highest position in the
    batch checkpoint       DM's table: the global point L, the bound B (`exit_safe_*`), points and structures per table
    ordered tables   which target tables are changed in the source's order, and since when (`ordered_tables.py`)
    undone changes   what the last run was given and surely did not do (`undone.py`)
    operators        what a person wants done with single events
    DDL intent       the piece about to be executed, with the structure before and the one expected after
    chunk records    which chunks of a full load are in (`chunks.py`)

Invariants.

I1  Every target transaction first updates its own lane's row and demands the epoch it started with. So a transaction of
    an older run can not commit once the epoch is raised, and raising it waits for those still open, since they hold the
    row's lock. The row commits with the data: what a lane did is read, never guessed, also after a lost COMMIT answer.
I2  Everything up to L is committed. L is computed from completions in source order and is written by the control lane.
I3  Nothing beyond B is committed. At the start of a run B := stored B joined with all worker rows, and it is stored
    before the first dispatch: the run overwrites the worker rows with lower positions, so they can not answer a
    second time. B only grows until L covers it; then it is dropped together with the write of that L.
I4  From L until what is processed covers B, changes of keyed tables are applied idempotently (safe mode: INSERT as
    REPLACE, UPDATE as DELETE + REPLACE, a missing row is no error). Row images are complete, so replaying every
    change of (L, B] in order of keys ends in the state at B, whatever subset of it was already there: a row touched
    in the window ends with its last image, a row not touched was never wrong. Outside the window every statement must
    hit exactly the rows it says, or the task pauses.
I5  Tables without a usable key are applied in one lane in source order; its row holds the exact position. On restart
    its changes at or below that position are skipped. That is exactly once, so safe mode does not concern them.
    Tables that are merged with such a one go the same way as soon as the run sees it, behind a barrier. Since when a
    target table goes this way is stored first (`ordered_tables.py`): a replay leaves out what came before, which is
    done, and does not change a table in order of which an earlier run may have changed rows by a key.
I6  DDL is a barrier: all lanes are drained, L is written, then for each piece an intent, then the piece. The next
    intent, or the checkpoint behind the whole statement, says that the piece is done. After a crash, when the session
    that ran it has ended (the fence waits for it): structure as expected after = done, structure as before = run it,
    neither = pause. A piece that the target refused is marked so: it was not executed, whatever a person then does to
    the structure. If it is the first of an ALTER's, the whole is announced and executed in place of all pieces, under a
    number of its own and with its own structures; if that is refused, too, nothing was executed. Where the structure
    can't show the effect, only an idempotent piece is run again.
I7  The structures stored with the checkpoint are those at L, because every DDL ends with a checkpoint.
I8  What an event stands for (its own statements, none, others: `operators.py`) is the same for every run that reads it.
    An operator is stored under the control lane's claim or lock before it counts, never for an event that was applied
    or is being applied, and goes with the checkpoint that passes the event. A change of it takes the intent of its
    event along. That statements were injected before an event is stored with the structures they left.

I9  With `atomic-transactions` one lane, `atomic`, applies everything in source order, each of its transactions made of
    whole ones of the source. So its row is exact for all tables, as the keyless lane's is for keyless ones: what lies
    at or below it is skipped, and nothing is replayed that readers of the target have seen already. What other runs
    did beyond L, with several lanes, is still covered by B and the keyless lane's row; and they, if they come later,
    take this lane's row for a part of both, and skip what lies at or below it, too: a replay that they do not finish
    would leave rows behind what this row says.

I10 In a replay, what an earlier run certainly did not do is applied as outside of the window: strictly. It knows that
    of changes which lanes had not begun, and of batches that the target rolled back, and says so when it ends in order.

A session is found without knowing its number: each takes a named lock (`fence.py`) for its lifetime; who holds the lock
is the session to end. That also works after a restart of the target, where numbers start again.

What it promises: keyed rows converge exactly, keyless rows are applied exactly once, nothing is skipped, per source. It
says nothing about two sources that write one key of one target: they have no common order.
"""
