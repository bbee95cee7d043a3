"""Verbs of several hosts: the cluster in etcd, who is a member, and which member runs a source.

Those that make a cluster, or move the registry of a single host there and back, ask no daemon: none may run then.
"""

from __future__ import annotations

from typing import Annotated, Final

from dm.errors import DMError
from dm.verbs.declaration import DONE, READS, Record, Verb, VerbGroup, argument, option, shape

MEMBERS: Final = shape("MembersListed", members=list[Record])

GROUPS = (VerbGroup("cluster", "Several hosts: their registry in etcd."),)


class ClusterInEtcd(Verb):
    """Which cluster, and how etcd is reached."""

    cluster: Annotated[str, option("--cluster", "etcd's addresses, as https://10.0.0.1:2379,..")] = ""
    cluster_prefix: Annotated[str, option("--cluster-prefix", "of its keys")] = "/dm-replicator/"
    cluster_user: Annotated[str, option("--cluster-user", "the user at etcd")] = ""
    cluster_password_file: Annotated[str, option("--cluster-password-file", "a file with that user's password")] = ""
    cluster_ca: Annotated[str, option("--cluster-ca", "the CA of etcd's certificate, in PEM")] = ""
    cluster_cert: Annotated[str, option("--cluster-cert", "what is shown to etcd")] = ""
    cluster_key: Annotated[str, option("--cluster-key", "the key of that certificate")] = ""


class InitCluster(ClusterInEtcd, name="cluster init", asks_daemon=False):
    """Make a cluster without sources and tasks, below a prefix that has none."""


class ImportRegistry(ClusterInEtcd, name="cluster import", asks_daemon=False):
    """Make a cluster of the registry in $DM_HOME: a single host's, or a member's copy after etcd has lost its data."""


class ExportRegistry(ClusterInEtcd, name="cluster export", asks_daemon=False):
    """Move a cluster's registry into $DM_HOME, for a single host; all members must have been stopped."""


class ListMembers(Verb, name="list-member", route="GET members", permission=READS, answer=MEMBERS):
    """List the members, with the sources that each runs."""

    leader: Annotated[bool, option("--leader -l", "only the leader: there is none, any member takes any verb")] = False
    master: Annotated[bool, option("--master -m", "only what DM calls masters: the members that live")] = False
    worker: Annotated[bool, option("--worker -w", "only what DM calls workers: all members")] = False
    member: Annotated[tuple[str, ...], option("--name -n", "only this member; may be repeated")] = ()


class TransferSource(Verb, name="transfer-source", route="POST sources/{source}/transfer", answer=DONE):
    """Have another member run a source. Its relay and its tasks go on there from what is stored."""

    source: Annotated[str, argument("the source's id")]
    member: Annotated[str, argument("the member that is to run it")]


class OfflineMember(Verb, name="offline-member", route="POST members/{member}/offline", answer=DONE):
    """Strike a member out that is gone for good."""

    member: Annotated[str, option("--name -n", "the member's name")] = ""
    worker: Annotated[bool, option("--worker -w", "as DM wants it; every member is one", sent=False)] = False
    master: Annotated[bool, option("--master -m", "as DM wants it; every member is one", sent=False)] = False

    def demand_consistent(self) -> None:
        """Raise DMError without a name."""
        if not self.member:
            raise DMError("usage", problem="no member is named", hint="dmctl offline-member --name <member>")
