"""Views, triggers, routines and events of the servers' own suites arrive with an equal SHOW CREATE, or are named.

Scripts are drawn (DM_OBJECTS_SEED) until there are DM_OBJECTS_SAMPLE objects of each kind, each with another text. They
are those of the server's own suite: scripts/fetch_statements.sh puts both in place, for long tests only. Tables are
made on both sides; objects at the source, and `apply` brings them before the script changes or drops anything.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest

from dm.demo.installation import cache_directory
from dm.demo.servers import Option, ThrowawayServer
from dm.ident import Ident
from dm.mysql.dialect import Flavor
from dm.tools.objects.stored import KINDS, ROUTINES
from dm.unit import JSON
from tests.live.objects.scene import Scene
from tests.live.schema.mysqltest import statements_of
from tests.live.schema.suite import replayed
from tests.testbed.figures import record
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(3 * 3600)]

SAMPLE: Final = int(os.environ.get("DM_OBJECTS_SAMPLE", "200"))
SEED: Final = int(os.environ.get("DM_OBJECTS_SEED", "20261129"))
_ROOTS: Final = {"mariadb": "statements/usr/share/mysql/mysql-test", "mysql": "statements-mysql/usr/lib/mysql-test"}
# Of clusters and plugins, or about the servers' own tables.
_ASIDE: Final = ("galera", "ndb", "group_replication", "perfschema", "wsrep", "/x/", "audit", "clone", "rpl", "binlog")
_OBJECT: Final = re.compile(
    rb"\s*create\s+(?:or\s+replace\s+)?(?:(?:algorithm|definer)\s*=\s*\S+\s+|sql\s+security\s+\w+\s+|aggregate\s+)*"
    rb"(view|trigger|procedure|function|event|package(?:\s+body)?)\b(?!.*\bsoname\b)",
    re.IGNORECASE | re.DOTALL,
)
_CHANGES: Final = re.compile(
    rb"\s*(?:drop|alter|rename|create\s+or\s+replace|create\s+(?:definer.*)?\s*trigger)\b", re.IGNORECASE | re.DOTALL
)
_DROPS: Final = re.compile(rb"\s*(?:drop|alter)\s+(?:view|trigger|procedure|function|event|package)\b", re.IGNORECASE)
_ELSEWHERE: Final = re.compile(
    rb"\b(?:mysql|sys|information_schema|performance_schema|mtr)`?\s*\.|@@?global\b", re.IGNORECASE
)
_WHOLE: Final = re.compile(rb"\s*(?:use|(?:create|drop|alter)\s+(?:database|schema))\b", re.IGNORECASE)
_TEST: Final = re.compile(rb"(?<![\w.@$'\"])(?:`test`|test)\s*\.\s*(?=[\w`])", re.IGNORECASE)
_UNSAFE: Final[dict[str, Option]] = {
    "innodb_flush_method": "nosync", "innodb_doublewrite": False, "event_scheduler": "OFF",
}  # fmt: skip
_DEFINED: Final = re.compile(rb"create\b[^;\n]{0,80}?\b(view|trigger|procedure|function|event)\b", re.IGNORECASE)
_BRINGS: Final = 20  # of one script: some create and drop one name a thousand times
GROUPS: Final = {kind: "routine" if kind in ROUTINES else kind for kind in KINDS}


class Sample:
    """What has been brought so far."""

    def __init__(self, source: ThrowawayServer, target: ThrowawayServer) -> None:
        self._source, self._target = source, target
        self.texts: dict[str, set[bytes]] = {group: set() for group in set(GROUPS.values())}
        self.verdicts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.wrong: list[str] = []

    @property
    def wanted(self) -> set[str]:
        """The kinds of which there are not enough."""
        return {group for group, texts in self.texts.items() if len(texts) < SAMPLE}

    def run(self, path: Path) -> None:
        """One script in schemas of its own."""
        scene = Scene(self._source, self._target)
        at_source, at_target = (self._session(server, scene.schema) for server in (self._source, self._target))
        try:
            pending, brought = False, 0
            for statement in _of_script(path, scene.schema):
                if brought == _BRINGS:
                    return
                if pending and (_CHANGES.match(statement) or _DROPS.match(statement)):
                    self.bring(scene, path)
                    pending, brought = False, brought + 1
                if not _accepted(at_source, statement):
                    continue
                pending = pending or _OBJECT.match(statement) is not None
                if _OBJECT.match(statement) is None:
                    _accepted(at_target, statement)
            if pending:
                self.bring(scene, path)
        finally:
            at_source.close()
            at_target.close()
            scene.close()

    def _session(self, server: ThrowawayServer, schema: str) -> Any:
        connection: Any = server.connect()
        connection.query(f"USE {Ident(schema).sql}")
        return connection

    def bring(self, scene: Scene, path: Path) -> None:
        """Everything that the source has now; what it had before is dropped, since nothing is ever replaced."""
        for name in scene.read(target=True):
            mode = "sql_mode = 'ORACLE'" if name.kind.startswith("package") else ""  # which alone knows packages
            scene.run_at_target(f"DROP {name.kind.upper()} IF EXISTS {Ident(name.name).sql}", session=mode)
        refused = {name: each for name, each in scene.applied().items() if each.state == "refused"}
        found, there = {**scene.compared(), **refused}, scene.read(target=True)
        for name, ours in scene.read(target=False).items():
            assert ours.statement is not None
            text, group = ours.statement.replace(scene.schema.encode(), b"schema"), GROUPS[name.kind]
            if text in self.texts[group]:
                continue
            self.texts[group].add(text)
            told = found.get(f"{name.kind} {name.name}")
            theirs = there.get(name)
            if theirs is not None and theirs.statement is not None:
                same = ours.statement
                if name.kind == "event":  # it comes disabled; its body may have the word, too
                    same = re.sub(rb" DISABLE ON (?:SLAVE|REPLICA)| ENABLE", b" DISABLE", same, count=1)
                if (theirs.statement, theirs.settings, theirs.definer) == (same, ours.settings, ours.definer):
                    self.verdicts[f"{group}: equal"] += 1
                    continue
            if told is not None and told.state == "refused" and all(told.why):
                self.verdicts[f"{group}: refused"] += 1
                self.refusals[re.sub(r"'[^']*'|`[^`]*`", "..", told.why[0])[:100]] += 1
                continue
            says = "not listed" if told is None else f"{told.state}: {told.why}"
            self.wrong.append(f"{path.name}: {name}: {says}\n{ours}\n{theirs}")


def _accepted(session: Any, statement: bytes) -> bool:
    try:
        session.query(statement)
    except pymysql.MySQLError:
        return False
    return True


def _of_script(path: Path, schema: str) -> Iterator[bytes]:
    """Its definitions of tables and objects, in the schema."""
    for statement in statements_of(path):
        if _ELSEWHERE.search(statement) or _WHOLE.match(statement):
            continue
        here = _TEST.sub(Ident(schema).sql.encode() + b".", statement)
        if _OBJECT.match(here) or _DROPS.match(here):
            yield here
        else:
            yield from replayed([here])


def scripts(flavor: Flavor) -> Iterator[tuple[Path, set[str]]]:
    """Those that define objects, in the order of the seed, with the kinds that they seem to define."""
    root = cache_directory() / _ROOTS[flavor]
    assert root.exists(), f"{root} is missing: run scripts/fetch_statements.sh"
    found = [
        path for path in sorted(root.rglob("*.test")) if not any(part in str(path.relative_to(root)) for part in _ASIDE)
    ]
    random.Random(SEED).shuffle(found)
    for path in found:
        kinds = {kind.decode().lower() for kind in _DEFINED.findall(path.read_bytes())}
        if kinds:
            yield path, {"routine" if kind in ROUTINES else kind for kind in kinds}


def test_objects_of_a_suite_arrive_or_are_named(park: ServerPark, flavor: Flavor) -> None:
    source, target = (park.own(flavor, gtid=True, options=_UNSAFE).start() for _ in range(2))
    print(f"DM_OBJECTS_SEED={SEED} DM_OBJECTS_SAMPLE={SAMPLE}")
    sample, ran = Sample(source, target), 0
    for path, kinds in scripts(flavor):
        if kinds & sample.wanted:
            sample.run(path)
            ran += 1
    for one in (source, target):
        one.destroy()
    counts: dict[str, JSON] = {group: len(texts) for group, texts in sample.texts.items()}
    figures: dict[str, JSON] = {
        "seed": SEED, "scripts": ran, "objects": counts, "verdicts": dict(sample.verdicts),
        "refusals": dict(sample.refusals.most_common(20)),
    }  # fmt: skip
    record(f"objects.suite.{flavor}", figures)
    print(figures)
    assert not sample.wrong, "\n\n".join(sample.wrong[:10])
    assert sample.wanted <= {"event"}, counts  # the suites have fewer events
    equal = sum(number for verdict, number in sample.verdicts.items() if verdict.endswith("equal"))
    assert equal >= 0.8 * sum(sample.verdicts.values()), figures
