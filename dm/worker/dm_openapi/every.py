"""All requests of DM's OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping

from dm.verbs.declaration import Verb
from dm.worker.dm_openapi.cluster import ClusterRequests
from dm.worker.dm_openapi.operation import OpenAPIRequests
from dm.worker.dm_openapi.sources import SourceRequests
from dm.worker.dm_openapi.structures import StructureRequests
from dm.worker.dm_openapi.tasks import TaskRequests
from dm.worker.dm_openapi.templates import TemplateRequests
from dm.worker.verb_work import Means, Work


def openapi_requests(means: Means, work: Mapping[type[Verb], Work]) -> list[OpenAPIRequests]:
    """One object a subject."""
    tasks = TaskRequests(means, work)
    return [
        SourceRequests(means, work), tasks, StructureRequests(means, work), TemplateRequests(means, work, tasks),
        ClusterRequests(means, work),
    ]  # fmt: skip
