"""What becomes of each verb about a task whose sources are owned by different members."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm.errors import DMError
from dm.verbs.declaration import MISSING, ConfigFile, Division, Verb
from dm.verbs.errands import Diff, Flashback, Heal, StopRun
from dm.verbs.every import VERBS
from dm.verbs.objects import Objects
from dm.verbs.tables import HoldTable
from dm.verbs.updates import ReloadTable
from dm.verbs.validation import ClearError, ValidationStatus
from dm.worker.routing import Routing
from dm.worker.verb_work import Answer, Means

OWNERS = {"one": "a", "two": "b", "three": "b"}
ME = "b"

FIRST_SOURCE = {"shard-ddl-lock list", "shard-ddl-lock unlock"}  # whose lock is at the target
WAYS = {
    Division.EACH_ITS_SOURCES: "split",
    Division.EACH_OWNER: "each",
    Division.ONE_SOURCE: "usage",
    Division.ALL_SOURCES: "task-on-several-members",
    Division.ONE_OWNER: "task-on-several-members",
    Division.ASKED: "here",
}


class Members:
    """Two of them, as one sees it; all that they are asked is noted."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Verb]] = []
        self.answers: Callable[[str, Verb], Answer] = lambda member, verb: {"result": True, "number": 7}
        ownership = SimpleNamespace(owner=lambda kind, name: OWNERS.get(name), owners=lambda kind: OWNERS)
        members = SimpleNamespace(living=lambda: {"a": None, "b": None}, known=dict)
        config = SimpleNamespace(name="t", source_ids=[*OWNERS])
        registry = SimpleNamespace(
            subtasks=lambda: {("t", source): None for source in OWNERS},
            sources=lambda: dict.fromkeys(OWNERS),
            tasks=lambda: {"t": None},
        )
        means = SimpleNamespace(
            others=SimpleNamespace(
                membership=SimpleNamespace(name=ME, ownership=ownership, members=members),
                forwarding=SimpleNamespace(ask=self._ask),
            ),
            supervisor=SimpleNamespace(registry=registry, source_configs=dict, sources={}),
            loop=SimpleNamespace(wait_until=lambda condition, seconds: condition(), call=lambda work: work()),
            reader=SimpleNamespace(task=lambda file, sources: (config, [])),
        )
        self.routing = Routing(cast(Means, means))

    def _ask(self, member: str, verb: Verb) -> Answer:
        self.asked.append((member, verb))
        return self.answers(member, verb)

    def does(self, verb: Verb) -> Answer:
        return self.routing._do(lambda asked: self._ask(ME, asked), verb)


@pytest.fixture
def members() -> Members:
    return Members()


def call(verb: type[Verb]) -> Verb:
    """Of the task, without naming a source."""
    given: dict[str, Any] = {}
    file = ConfigFile("t.yaml", "name: t", "/", {})
    for each in verb.parameters():
        known = {"task": "t", "lock": "t-`db`.`tb`", "file": file}
        if each.name == "file" and each.type is not ConfigFile:
            given["file"] = each.default  # a place for an answer, or what may stand for the task
            continue
        given[each.name] = known.get(each.name, "x" if each.default is MISSING else each.default)
    return verb(**given)


def of_a_task(verb: type[Verb]) -> bool:
    kinds = {each.name: each.type for each in verb.parameters()}
    return bool(verb.path) and ("task" in kinds or "lock" in kinds or kinds.get("file") is ConfigFile)


def known_as(verb: type[Verb]) -> str:
    return verb.name or f"{verb.method} {verb.path.removeprefix('/api/v2/')}"


@pytest.mark.parametrize("verb", [*filter(of_a_task, VERBS)], ids=known_as)
def test_each_verb_about_a_task_goes_the_way_that_it_declares(members: Members, verb: type[Verb]) -> None:
    asked = call(verb)
    try:
        members.does(asked)
    except DMError as error:
        assert not members.asked
        way = error.name
    else:
        way = _way(members.asked, asked)
    if known_as(verb) in FIRST_SOURCE or (asked.division is Division.ONE_OWNER and asked.asks_servers_alone()):
        assert way == "one of the owners"
    else:
        assert way == WAYS[asked.division]


def _way(asked: list[tuple[str, Verb]], whole: Verb) -> str:
    by_member = dict(asked)
    assert len(by_member) == len(asked)
    if by_member.keys() == {"a", "b"}:
        if set(map(str, (vars(one) for one in by_member.values()))) == {str(vars(whole))}:
            return "each"
        of = {name: vars(one).get("sources") or vars(one)["source"] for name, one in by_member.items()}
        assert of == {"a": ("one",), "b": ("two", "three")}
        return "split"
    assert {str(vars(one)) for one in by_member.values()} == {str(vars(whole))}
    return "here" if by_member.keys() == {ME} else "one of the owners"


def test_a_refusal_says_what_brings_the_sources_together(members: Members) -> None:
    for verb in (Flashback, Heal):
        with pytest.raises(DMError) as caught:
            members.does(call(verb))
        assert f"task t runs on the members a, b, and `{verb.name}`" in caught.value.message
        assert caught.value.workaround == "bring its sources to one member: `dmctl transfer-source one b`"
    members.does(call(Flashback).but(sources=("one",)))
    assert [member for member, _ in members.asked] == ["a"]


@pytest.mark.parametrize("verb", [Diff(**vars(call(Diff))).but(recent=True), call(Objects).but(apply=True),
                                  call(Objects).but(enable_events=True)])  # fmt: skip
def test_what_needs_more_than_servers_is_refused(members: Members, verb: Verb) -> None:
    with pytest.raises(DMError) as caught:
        members.does(verb)
    assert caught.value.name == "task-on-several-members"


def test_a_table_is_not_emptied_before_all_are_asked_for_rows_in_it(members: Members) -> None:
    with pytest.raises(DMError) as caught:
        members.does(call(ReloadTable).but(source="one"))
    assert caught.value.name == "task-on-several-members"


def test_a_source_that_is_named_is_enough(members: Members) -> None:
    with pytest.raises(DMError, match="task t has several sources: one, three, two"):
        members.does(call(HoldTable))
    answer = members.does(call(Heal).but(source="one"))
    ((member, asked),) = members.asked
    assert (member, vars(asked)["source"]) == ("a", "one")
    number = int(str(answer["number"]))
    assert number > 1_000_000_000, "a number of this member, where the caller asks"
    members.does(StopRun(number=number))
    assert (members.asked[-1][0], members.asked[-1][1]) == ("a", StopRun(number=7))


def test_a_member_without_a_validator_hides_none_of_the_others(members: Members) -> None:
    def none_at_a(member: str, verb: Verb) -> Answer:
        if member == "a":
            raise DMError("validator-not-there", task="t")
        return {"result": True, "changed": 1}

    members.answers = none_at_a
    assert members.does(call(ClearError).but(number=3)) == {"result": True, "changed": 1}
    assert members.does(call(ValidationStatus)) == {"result": True, "changed": 1}

    def none(member: str, verb: Verb) -> Answer:
        raise DMError("validator-not-there", task="t")

    members.answers = none
    with pytest.raises(DMError) as caught:
        members.does(call(ValidationStatus))
    assert caught.value.name == "validator-not-there"
    members.answers = lambda member, verb: none(member, verb) if member == "b" else _silent()
    with pytest.raises(DMError, match="member a"):  # who knows what it has
        members.does(call(ClearError).but(number=3))


def _silent() -> Answer:
    raise DMError("member-unreachable", member="a", address="a:8262", problem="timed out")
