"""A source in DM's OpenAPI shape and as a source file: both directions, by the rules of `task_file.py`."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from dm.config import SourceConfig, read_source
from dm.config.secret import MASK
from dm.config.written import as_yaml
from dm.errors import DMError
from dm.unit import JSON
from dm.worker.dm_openapi.source_shapes import DMPurge, DMSource, RelayConfig
from dm.worker.dm_openapi.task_file import security_as_file, security_as_shape
from dm.worker.dm_openapi.task_shapes import TargetDatabase


def source_as_file(source: DMSource) -> str:
    """The source file of a source in the shape. What is wrong with it is found where it is read."""
    login: dict[str, JSON] = {
        "host": source.host, "port": source.port, "user": source.user, "password": source.password or "",
    }  # fmt: skip
    if source.security is not None and source.security.says_something:
        login["security"] = security_as_file(source.security)
    relay, purge = source.relay_config or RelayConfig(), source.purge or DMPurge()
    relays: dict[str, JSON] = {
        "enable-relay": relay.enable_relay, "relay-dir": relay.relay_dir,
        "relay-binlog-name": relay.relay_binlog_name, "relay-binlog-gtid": relay.relay_binlog_gtid,
    }  # fmt: skip
    purged: dict[str, JSON] = {
        "interval": purge.interval, "expires": purge.expires, "remain-space": purge.remain_space,
    }  # fmt: skip
    purged = {key: value for key, value in purged.items() if value is not None}
    return as_yaml(
        {
            "source-id": source.source_name,
            "enable-gtid": source.enable_gtid,
            **({"flavor": source.flavor} if source.flavor else {}),
            **{key: value for key, value in relays.items() if value},
            "from": login,
            **({"purge": purged} if purged else {}),
        }
    )


def source_as_shape(config: SourceConfig) -> DMSource:
    """What the shape can say of a source file, its password in clear; `keys_without_field` names the rest."""
    source = DMSource(
        source_name=config.source_id, host=config.endpoint.host, port=config.endpoint.port,
        user=config.endpoint.user, password=config.endpoint.password.get_secret_value(),
        enable_gtid=config.enable_gtid, flavor=config.flavor or None,
        security=security_as_shape(config.endpoint.security),
        purge=DMPurge(
            interval=config.purge.interval, expires=config.purge.expires, remain_space=config.purge.remain_space
        ),
        relay_config=RelayConfig(
            enable_relay=config.enable_relay, relay_binlog_name=config.relay_binlog_name or None,
            relay_binlog_gtid=config.relay_binlog_gtid or None, relay_dir=config.relay_dir or None,
        ),
    )  # fmt: skip
    return source.model_copy(update={"keys_without_field": _keys_without_field(config, source) or None})


_NOT_COMPARED: Final[dict[str, Any]] = {"endpoint": {"password", "session_places"}}


def _keys_without_field(config: SourceConfig, source: DMSource) -> list[str]:
    try:
        again = read_source(source_as_file(source.model_copy(update={"password": ""})), environ={})
    except DMError as error:
        return [f"some (what is left is no source: {error.message})"]
    before, after = (each.model_dump(exclude=_NOT_COMPARED, context={"reveal": True}) for each in (config, again))
    found = (key for key in before if before[key] != after[key])
    return sorted("from" if key == "endpoint" else key.replace("_", "-") for key in found)


L = TypeVar("L", DMSource, TargetDatabase)


def with_secrets(given: L, known: L) -> L:
    """What an update brings, with the password and the certificates of before where it brings none.

    Answers hide them, so a client that reads, changes and writes would lose them else. Certificates with empty texts
    are none, and end TLS.
    """
    password = known.password if given.password in (None, MASK) else given.password
    security = known.security if given.security is None else given.security
    return given.model_copy(update={"password": password, "security": security})
