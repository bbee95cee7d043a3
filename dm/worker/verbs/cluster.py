"""The verbs of several hosts."""

from __future__ import annotations

from typing import cast

from dm.cluster.members import ClusterMember
from dm.cluster.ownership import SOURCE
from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.cluster import ListMembers, OfflineMember, TransferSource
from dm.worker.verb_work import Answer, OtherHosts, VerbWork, does


class MemberVerbs(VerbWork):
    """Of a member; a single host is the only one."""

    @does(ListMembers)
    def show(self, asked: ListMembers) -> Answer:
        """In DM's form: what it calls masters and workers are the same members here."""
        wanted = asked.leader, asked.master, asked.worker
        leader, master, worker = wanted if any(wanted) else (True, True, True)
        lines = [line for line in self._lines() if not asked.member or line["name"] in asked.member]
        members: list[JSON] = []
        if leader:
            members.append({"leader": {"msg": "there is none: any member takes any verb", "name": "", "addr": ""}})
        if master:
            masters: list[JSON] = [
                {
                    "name": line["name"], "memberID": line["name"], "alive": True,
                    "peerURLs": [line["addr"]], "clientURLs": [line["addr"]],
                }
                for line in lines
                if line["stage"] != "offline"
            ]  # fmt: skip
            members.append({"master": {"msg": "", "masters": masters}})
        if worker:
            members.append({"worker": {"msg": "", "workers": cast("list[JSON]", lines)}})
        return {"members": members}

    def _lines(self) -> list[dict[str, JSON]]:
        others = self._means.others
        if others is None:
            sources = self._loop.call(lambda: sorted(self._supervisor.sources))
            return [_line(ClusterMember(self._supervisor.worker, "", "", ""), sources, lives=True)]
        members, owners = others.membership.members, others.membership.ownership.owners(SOURCE)
        living = members.living()
        return [
            _line(one, sorted(source for source, owner in owners.items() if owner == name), lives=name in living)
            for name, one in sorted({**members.known(), **living}.items())
        ]

    @does(TransferSource)
    def transfer(self, asked: TransferSource) -> Answer:
        """By its owner: it answers when the source rests here and the other one may take it."""
        others = self._others(f"source {asked.source}")
        living = others.membership.members.living()
        if asked.member not in living:
            raise DMError("member-unknown", member=asked.member, there=", ".join(sorted(living)) or "none")
        self._loop.call(lambda: self._supervisor.source(asked.source))
        if asked.member == others.membership.name:
            others.holdings.wish(asked.source, asked.member)
            return {}
        loading = self._loop.call(lambda: self._supervisor.tasks_loading(asked.source))
        if loading:
            raise DMError("source-loads", source=asked.source, tasks=", ".join(loading))
        others.holdings.hand_over(asked.source, asked.member)
        return {}

    @does(OfflineMember)
    def strike_out(self, asked: OfflineMember) -> Answer:
        """One that lives is refused."""
        self._others(f"member {asked.member}").membership.members.strike_out(asked.member)
        return {}

    def _others(self, what: str) -> OtherHosts:
        if self._means.others is None:
            raise DMError("no-cluster", what=what)
        return self._means.others


def _line(member: ClusterMember, sources: list[str], *, lives: bool) -> dict[str, JSON]:
    stage = "offline" if not lives else "bound" if sources else "free"
    return {
        "name": member.name, "addr": member.address, "stage": stage, "source": ", ".join(sources),
        "sources": [*sources], "version": member.version, "labels": dict(member.labels),
    }  # fmt: skip
