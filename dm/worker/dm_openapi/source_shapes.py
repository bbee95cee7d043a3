"""DM's objects of sources, relays and the cluster, by the names of its OpenAPI document."""

from __future__ import annotations

from pydantic import BaseModel, Field, model_validator

from dm.worker.request_body import RequestBody

SourceNames = list[str]


class ErrorWithMessage(BaseModel):
    """The answer to each request that can't be done."""

    error_msg: str
    error_code: int


class DMSecurity(RequestBody):
    """TLS, by the contents of the files."""

    ssl_ca_content: str = ""
    ssl_cert_content: str = ""
    ssl_key_content: str = ""
    cert_allowed_cn: list[str] | None = None

    @property
    def says_something(self) -> bool:
        """Whether it asks for TLS; DM's documentation shows it with empty texts."""
        return bool(self.ssl_ca_content or self.ssl_cert_content or self.ssl_key_content)


class DMPurge(RequestBody):
    """When relay files are removed."""

    interval: int | None = None
    expires: int | None = None
    remain_space: int | None = None


class RelayConfig(RequestBody):
    """The relay of a source."""

    enable_relay: bool | None = None
    relay_binlog_name: str | None = None
    relay_binlog_gtid: str | None = None
    relay_dir: str | None = None


class RelayStatus(RequestBody):
    """How a relay is."""

    master_binlog: str
    master_binlog_gtid: str
    relay_dir: str
    relay_binlog_gtid: str
    relay_catch_up_master: bool
    stage: str


class SourceStatus(RequestBody):
    """How a source is."""

    source_name: str
    worker_name: str
    relay_status: RelayStatus | None = None
    error_msg: str | None = None


class DMSource(RequestBody):
    """A server that tasks migrate from."""

    source_name: str
    host: str
    port: int
    user: str
    password: str | None = Field(
        default=None, description="in answers `******`; an update with that, or without, keeps it"
    )
    enable_gtid: bool = False
    enable: bool = Field(default=True, description="whether tasks on it may be started through this interface")
    flavor: str | None = None
    task_name_list: list[str] | None = None
    security: DMSecurity | None = None
    purge: DMPurge | None = None
    status_list: list[SourceStatus] | None = None
    relay_config: RelayConfig | None = None
    keys_without_field: list[str] | None = Field(
        default=None, description="ours: keys of the source file for which DM's OpenAPI has no field"
    )


def documented_below(key: str, said: object) -> object:
    """A request whose object stands at the top, as DM's documentation has it, and not under its key."""
    return {key: said} if isinstance(said, dict) and key not in said and said else said


class CreateSourceRequest(RequestBody):
    """A source to be made known."""

    source: DMSource
    worker_name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _documented(cls, said: object) -> object:
        return documented_below("source", said)


class UpdateSourceRequest(RequestBody):
    """A source as it is to be."""

    source: DMSource


class SourceList(BaseModel):
    """Sources."""

    total: int
    data: list[DMSource]


class SourceStatusList(BaseModel):
    """How a source is, by worker."""

    total: int
    data: list[SourceStatus]


class WorkerNameRequest(RequestBody):
    """Where a source is to go."""

    worker_name: str


class EnableRelayRequest(RequestBody):
    """Where a relay begins."""

    worker_name_list: list[str] | None = None
    relay_binlog_name: str | None = None
    relay_binlog_gtid: str | None = None
    relay_dir: str | None = None

    @property
    def changes(self) -> bool:
        """Whether the source's file becomes another one."""
        return bool(self.relay_binlog_name or self.relay_binlog_gtid or self.relay_dir)


class DisableRelayRequest(RequestBody):
    """Whose relay is to stop."""

    worker_name_list: list[str] | None = None


class PurgeRelayRequest(RequestBody):
    """Which relay files go."""

    relay_binlog_name: str
    relay_dir: str | None = None


class ClusterMaster(BaseModel):
    """A DM-master: here the one process there is."""

    name: str
    alive: bool
    leader: bool
    addr: str


class ClusterMasterList(BaseModel):
    """DM-masters."""

    total: int
    data: list[ClusterMaster]


class ClusterWorker(BaseModel):
    """A DM-worker with one of its sources."""

    name: str
    addr: str
    bound_stage: str
    bound_source_name: str


class ClusterWorkerList(BaseModel):
    """DM-workers."""

    total: int
    data: list[ClusterWorker]


class NamedTopology(RequestBody):
    """A process of a cluster."""

    name: str
    host: str
    port: int


class AddressTopology(RequestBody):
    """A process of which there is one."""

    host: str
    port: int


class ClusterTopology(RequestBody):
    """What runs where, as whoever deployed it has said."""

    master_topology_list: list[NamedTopology] | None = None
    worker_topology_list: list[NamedTopology] | None = None
    grafana_topology: AddressTopology | None = None
    prometheus_topology: AddressTopology | None = None
    alert_manager_topology: AddressTopology | None = None


class ClusterInfo(BaseModel):
    """What identifies the cluster."""

    cluster_id: int
    topology: ClusterTopology | None = None
