"""`compact` in a task: changes of hot rows become few, the rows are the same."""

from __future__ import annotations

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live

COLUMNS = (
    "a TINYINT UNSIGNED, b BIGINT, c DECIMAL(20,6), d DATETIME(6), e TIMESTAMP(3) NULL, f TIME, g YEAR, h FLOAT,"
    " i CHAR(9) CHARACTER SET latin1, j VARCHAR(30), k TEXT, l BLOB, m VARBINARY(9), n ENUM('x', 'y'), o SET('x', 'y'),"
    " p BIT(9), q DATE, r INT(11) ZEROFILL"
)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("session", [{}, {"sql_mode": "STRICT_ALL_TABLES"}], ids=["", "own sql_mode"])
def test_changes_of_hot_rows_become_few(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, session: dict[str, str]
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.hot (id INT PRIMARY KEY, u VARCHAR(20) UNIQUE, {COLUMNS})",
            f"CREATE TABLE {name}.queue (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, body MEDIUMTEXT)",
        )
    subtask = subtask_for(upstream, target, name, task=name, workers=1, compact=True)
    subtask = subtask.model_copy(update={"target": subtask.target.model_copy(update={"session": session})})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        statements = []
        for step in range(40):
            if step % 4 == 0:
                statements += [
                    f"REPLACE INTO {name}.hot (id, u, b) VALUES (1, 'one', {step}), (2, NULL, {step})",
                    f"INSERT INTO {name}.queue (body) VALUES ('{step}')",
                ]
            statements += [
                f"UPDATE {name}.hot SET a = {step}, c = {step}.5, j = 'ä{step}', k = REPEAT('x', {step})",
                f"UPDATE {name}.hot SET n = 'y', o = 'x,y', p = {step}, d = NOW(6), e = NOW(3), h = {step} / 7",
            ]
            if step % 4 == 3:
                statements.append(f"DELETE FROM {name}.queue")
        upstream.execute("START TRANSACTION", *statements, "COMMIT")
        status = sync.wait_synced()
        compacted, rows = status["compactedRows"], status["totalRows"]
    assert isinstance(compacted, int)
    assert isinstance(rows, int)
    assert (compacted > 100) is not bool(session), f"{compacted} of {rows}"
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
