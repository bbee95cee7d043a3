"""DM's OpenAPI: the cluster. Each member is a DM-master and a DM-worker; a single host is the only one of both.

A member with several sources is told once for each of them, as DM has one source per worker.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, cast

from fastapi import Request

from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.cluster import ListMembers, OfflineMember
from dm.verbs.declaration import CHANGES, READS
from dm.worker.dm_openapi import source_shapes as shapes
from dm.worker.dm_openapi.operation import OpenAPIRequests, operation

_TOPOLOGY: Final = "openapi-topology"  # a setting of the registry
_BYTES_OF_ID: Final = 6  # of DM's eight: a reader of JSON may have numbers of 53 bits


def _address(request: Request) -> str:
    """Where the request came in, as DM tells addresses."""
    host, port = request.scope.get("server") or ("", None)
    if port is None:
        return str(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ClusterRequests(OpenAPIRequests):
    """The cluster."""

    tag = "cluster"

    @operation("GET cluster/info", READS, shapes.ClusterInfo)
    def get_cluster_info(self) -> shapes.ClusterInfo:
        """Tell the number of this home, or of its cluster, and the topology that was stored."""
        others, home = self._means.others, self._supervisor.home.directory.resolve()
        what = f"{self._supervisor.worker}:{home}" if others is None else others.membership.record.number
        number = int.from_bytes(hashlib.sha256(what.encode()).digest()[:_BYTES_OF_ID])
        stored = self._registry.settings().get(_TOPOLOGY)
        topology = None if stored is None else shapes.ClusterTopology.model_validate_json(stored)
        return shapes.ClusterInfo(cluster_id=number, topology=topology)

    @operation("PUT cluster/info", CHANGES, shapes.ClusterInfo)
    def update_cluster_info(self, body: shapes.ClusterTopology) -> shapes.ClusterInfo:
        """Store a topology, which nothing but the answer to GET uses."""
        text = body.model_dump_json(exclude_none=True)
        self._loop.call(lambda: self._registry.put_settings({_TOPOLOGY: text}))
        return self.get_cluster_info()

    @operation("GET cluster/masters", READS, shapes.ClusterMasterList)
    def get_cluster_master_list(self, request: Request) -> shapes.ClusterMasterList:
        """List the members: each takes any verb; this one is told as the leader."""
        ours = self._supervisor.worker
        data = [
            shapes.ClusterMaster(
                name=str(one["name"]), alive=one["stage"] != "offline", leader=one["name"] == ours,
                addr=str(one["addr"]) or _address(request),
            )
            for one in self._members()
        ]  # fmt: skip
        return shapes.ClusterMasterList(total=len(data), data=data)

    @operation("DELETE cluster/masters/{master_name}", CHANGES, status=204)
    def offline_master_node(self, master_name: str) -> None:
        """Strike a member out that is gone."""
        self._strike_out("master", master_name)

    @operation("GET cluster/workers", READS, shapes.ClusterWorkerList)
    def get_cluster_worker_list(self, request: Request) -> shapes.ClusterWorkerList:
        """List the members, once for each of their sources."""
        data = [
            shapes.ClusterWorker(
                name=str(one["name"]), addr=str(one["addr"]) or _address(request), bound_stage=str(one["stage"]),
                bound_source_name=source,
            )
            for one in self._members()
            for source in cast("list[str]", one["sources"]) or [""]
        ]  # fmt: skip
        return shapes.ClusterWorkerList(total=len(data), data=data)

    @operation("DELETE cluster/workers/{worker_name}", CHANGES, status=204)
    def offline_worker_node(self, worker_name: str) -> None:
        """Strike a member out that is gone."""
        self._strike_out("worker", worker_name)

    def _members(self) -> list[dict[str, JSON]]:
        (part,) = cast("list[dict[str, Any]]", self._do(ListMembers(worker=True))["members"])
        found: list[dict[str, JSON]] = part["worker"]["workers"]
        return found

    def _strike_out(self, kind: str, name: str) -> None:
        if self._means.others is not None:
            self._do(OfflineMember(member=name))
            return
        hint = "`dmctl shutdown` ends dm-worker; its tasks go on when it is started again"
        worker = self._supervisor.worker
        raise DMError("openapi-single-host", what=f"taking {kind} {name} out", worker=worker, hint=hint)
