"""A task whose name DM has used at the target: the ways out that its refusal names, by the verbs that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.syncer.errors.test_operators import place
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import SchemaFactory

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

# As DM makes it (its checkpoint.go).
CHECKPOINT = (
    "CREATE TABLE {} (id VARCHAR(32) NOT NULL, cp_schema VARCHAR(128) NOT NULL, cp_table VARCHAR(128) NOT NULL,"
    " binlog_name VARCHAR(128), binlog_pos INT UNSIGNED, binlog_gtid TEXT, exit_safe_binlog_name VARCHAR(128) DEFAULT"
    " '', exit_safe_binlog_pos INT UNSIGNED DEFAULT 0, exit_safe_binlog_gtid TEXT, table_info JSON NOT NULL, is_global"
    " BOOLEAN, create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, update_time TIMESTAMP NOT NULL DEFAULT"
    " CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE KEY uk_id_schema_table (id, cp_schema, cp_table))"
)


def test_the_ways_out_of_a_name_that_dm_has_used(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name, meta_schema = schema(upstream, target), schema(target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    file, offset = place(upstream).split(":")
    base, number = file.rsplit(".", 1)
    stored = f"{meta_schema}.{name}_syncer_checkpoint"
    target.execute(
        CHECKPOINT.format(stored),
        f"INSERT INTO {stored} (id, cp_schema, cp_table, binlog_name, binlog_pos, table_info, is_global)"
        f" VALUES ('s', '', '', '{base}|000001.{number}', {offset}, 'null', TRUE)",
    )
    upstream.execute(f"INSERT INTO {name}.t VALUES (1)")
    (tmp_path / "source.yaml").write_text(
        f"source-id: s\nfrom: {{host: 127.0.0.1, user: root, password: {upstream.password}, port: {upstream.port}}}\n"
    )

    def write(task: str, meta: str = "") -> str:
        path = tmp_path / f"{task}.yaml"
        path.write_text(
            f"name: {task}\ntask-mode: incremental\nmeta-schema: {meta_schema}\ntarget-database: {{host: 127.0.0.1,"
            f" user: root, password: {target.password}, port: {target.port}}}\n"
            f"mysql-instances: [{{source-id: s, block-allow-list: l{meta}}}]\n"
            f"block-allow-list: {{l: {{do-dbs: [{name}]}}}}\n"
        )
        return path.name

    with Daemon(tmp_path) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        refused = daemon.dmctl("start-task", write(name))
        text = refused.out + refused.err
        assert refused.status == 3, text
        assert f"binlog-name {file}, binlog-pos {offset}" in text
        assert f"dmctl forgotten remove progress/{name} --file" in text

        daemon.must("start-task", write(f"{name}_2", f", meta: {{binlog-name: {file}, binlog-pos: {offset}}}"))
        daemon.must("wait", f"{name}_2", "--synced", "--timeout", "60")
        assert target.query(f"SELECT id FROM {name}.t") == ((1,),)
        daemon.must("stop-task", f"{name}_2")

        daemon.must("forgotten", "remove", f"progress/{name}", "--file", f"{name}.yaml")
        daemon.must("start-task", f"{name}.yaml")
        upstream.execute(f"INSERT INTO {name}.t VALUES (2)")
        daemon.must("wait", name, "--synced", "--timeout", "60")
        assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ((1,), (2,))
        daemon.must("stop-task", name)
