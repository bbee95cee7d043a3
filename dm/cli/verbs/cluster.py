"""The text of the verbs of several hosts, and what `dmctl cluster` does in this process: no daemon may run then."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Final

from dm.cli import output as printer
from dm.cli.caller import Answer, Caller, runs, shows
from dm.errors import DMError
from dm.text import counted
from dm.verbs.cluster import (
    ClusterInEtcd,
    ExportRegistry,
    ImportRegistry,
    InitCluster,
    ListMembers,
    OfflineMember,
    TransferSource,
)
from dm.worker.home import Home
from dm.worker.installed import demand_worker

_FILES: Final = ("_file", "_ca", "_cert", "_key")


@runs(InitCluster, ImportRegistry, ExportRegistry)
def move(asked: ClusterInEtcd, caller: Caller) -> None:
    """Say what is where afterwards."""
    demand_worker()
    from dm.worker.registry_moves import init, move_into_cluster, move_out_of_cluster  # not where `dmctl` is alone
    from dm.worker.several_hosts import access_of, cluster_prefix

    if not asked.cluster:
        raise DMError("usage", problem="etcd is not named", hint=f"dmctl {asked.name} --cluster https://10.0.0.1:2379")
    files = {name: Path(said) if said else None for name, said in vars(asked).items() if name.endswith(_FILES)}
    access = access_of(Namespace(**{**vars(asked), **files}))
    prefix, home = cluster_prefix(asked.cluster_prefix), Home.of(os.environ)
    if isinstance(asked, InitCluster):
        text = f"cluster {init(access, prefix)} is below {prefix}"
    elif isinstance(asked, ImportRegistry):
        home.create()
        number, sources = move_into_cluster(access, prefix, home)
        text = f"cluster {number} is below {prefix}, with {counted(sources, 'source')} of {home.directory}"
    else:
        home.create()
        sources = move_out_of_cluster(access, prefix, home)
        text = f"{home.directory} has the registry, with {counted(sources, 'source')}; the cluster is no more"
    if caller.json:
        printer.print_json({"result": True, "msg": text})
    else:
        printer.print_line(text)


@shows(ListMembers)
def members(_asked: ListMembers, answer: Answer) -> None:
    """A line for each member, whatever DM would call it."""
    lines: dict[str, tuple[str, ...]] = {}
    for part in answer["members"]:
        if "leader" in part:
            printer.say(f"leader: {part['leader']['msg']}")
        for one in part.get("master", {}).get("masters", ()):
            lines.setdefault(one["name"], (one["name"], ", ".join(one["clientURLs"]), "alive", "", "", ""))
        for one in part.get("worker", {}).get("workers", ()):
            labels = ", ".join(f"{name}={value}" for name, value in sorted(one["labels"].items()))
            lines[one["name"]] = (one["name"], one["addr"], one["stage"], one["source"], labels, one["version"])
    printer.table("", ("member", "address", "stage", "sources", "labels", "version"), lines.values())


@shows(TransferSource)
def transferred(asked: TransferSource, _answer: Answer) -> None:
    """It is at the other member's."""
    printer.print_line(f"source {asked.source} goes to {asked.member}")


@shows(OfflineMember)
def struck_out(asked: OfflineMember, _answer: Answer) -> None:
    """It is not listed any more."""
    printer.print_line(f"member {asked.member} is struck out")
