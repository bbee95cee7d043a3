"""DM's OpenAPI: the cluster, which is this process: the only DM-master, and the worker of all sources."""

from __future__ import annotations

import hashlib
from typing import Final

from fastapi import Request

from dm.errors import DMError
from dm.verbs.declaration import CHANGES, READS
from dm.worker.dm_openapi import source_shapes as shapes
from dm.worker.dm_openapi.operation import OpenAPIRequests, operation
from dm.worker.dm_openapi.sources import worker_name

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
        """Tell the number of this home, and the topology that was stored."""
        home = f"{worker_name()}:{self._supervisor.home.directory.resolve()}"
        number = int.from_bytes(hashlib.sha256(home.encode()).digest()[:_BYTES_OF_ID])
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
        """List the one DM-master."""
        master = shapes.ClusterMaster(name=worker_name(), alive=True, leader=True, addr=_address(request))
        return shapes.ClusterMasterList(total=1, data=[master])

    @operation("DELETE cluster/masters/{master_name}", CHANGES, status=204)
    def offline_master_node(self, master_name: str) -> None:
        """Take a DM-master out, which would be this process."""
        self._refuse("master", master_name)

    @operation("GET cluster/workers", READS, shapes.ClusterWorkerList)
    def get_cluster_worker_list(self, request: Request) -> shapes.ClusterWorkerList:
        """List the one worker once for each of its sources."""
        name, address = worker_name(), _address(request)
        sources = self._loop.call(lambda: sorted(self._supervisor.sources))
        data = [
            shapes.ClusterWorker(name=name, addr=address, bound_stage="bound", bound_source_name=source)
            for source in sources
        ] or [shapes.ClusterWorker(name=name, addr=address, bound_stage="free", bound_source_name="")]
        return shapes.ClusterWorkerList(total=len(data), data=data)

    @operation("DELETE cluster/workers/{worker_name}", CHANGES, status=204)
    def offline_worker_node(self, worker_name: str) -> None:
        """Take a worker out, which would be this process."""
        self._refuse("worker", worker_name)

    def _refuse(self, kind: str, name: str) -> None:
        hint = "`dmctl shutdown` ends dm-worker; its tasks go on when it is started again"
        raise DMError("openapi-single-host", what=f"taking {kind} {name} out", worker=worker_name(), hint=hint)
