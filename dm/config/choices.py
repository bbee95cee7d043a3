"""Values of the task file that are one of a few words."""

from __future__ import annotations

from typing import Literal

TaskMode = Literal["full", "incremental", "all", "dump", "load", "load&sync"]
ShardMode = Literal["", "pessimistic", "optimistic"]
Collation = Literal["loose", "strict"]
Conversion = Literal["", "auto", "on", "off"]
CheckingItem = Literal[
    "all", "version", "server_id", "binlog_enable", "binlog_format", "binlog_row_image", "binlog_db",
    "replication_privilege", "dump_privilege", "target_privilege", "table_schema", "schema_of_shard_tables",
    "auto_increment_ID", "online_ddl", "meta_position", "conn_number", "empty_region", "region_distribution",
    "downstream_version", "free_space", "downstream_mutex_features", "downstream_table_empty", "primary_key",
    "block_allow_list", "dump_directory", "relay_directory", "binlog_row_metadata", "gtid_mode", "row_events",
    "validators", "server_identity", "target_session", "dump_selection", "not_migrated",
    "spark_authentication",
]  # fmt: skip
