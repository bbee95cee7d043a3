"""`dmctl objects`, as a person gives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cli.newcomer import Newcomer
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live


@pytest.fixture
def newcomer(park: ServerPark, tmp_path: Path) -> Iterator[Newcomer]:
    one = Newcomer(park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target"), tmp_path)
    with one.daemon:
        yield one
        one.close()


def test_from_the_list_to_the_enabled_event(newcomer: Newcomer) -> None:
    schema, said, must = newcomer.schema, newcomer.daemon.said, newcomer.daemon.must
    newcomer.upstream.execute(
        f"CREATE VIEW {schema}.seen AS SELECT id FROM {schema}.orders",
        f"CREATE TRIGGER {schema}.stamp BEFORE INSERT ON {schema}.orders FOR EACH ROW SET NEW.v = 'x'",
        f"CREATE EVENT {schema}.nightly ON SCHEDULE EVERY 1 DAY DO SELECT 1",
    )
    narrow = newcomer.good_target_user()
    wide = newcomer.user(newcomer.target, "ALL ON *.*")
    source = newcomer.source_text("here", newcomer.user(newcomer.upstream, "ALL ON *.*"))
    must("operate-source", "create", newcomer.file("source.yaml", source))
    must("start-task", newcomer.file("narrow.yaml", newcomer.task_text("narrow", "here", narrow)))
    must("start-task", newcomer.file("wide.yaml", newcomer.task_text("wide", "here", wide)))

    listed = said("objects", "wide")
    assert (listed.status, listed.out.splitlines()) == (
        1,
        [
            f"view {schema}.seen: missing",
            f"trigger {schema}.stamp on orders: missing (comes with the cut-over)",
            f"event {schema}.nightly: missing (comes with the cut-over)",
            f"account {narrow}@%: only at the target",
            "4 objects: 3 missing, 1 only at the target",
        ],
    )
    refused = said("objects", "narrow", "--apply")
    assert refused.status == 1
    assert "GRANT CREATE VIEW ON" in refused.out, "what is lacking can be copied"
    written = said("objects", "wide", "--sql", "scripts")
    assert [line.rpartition("/")[2] for line in written.out.splitlines() if line.startswith("file: ")] == [
        "3-views.sql",
        "5-triggers.sql",
        "6-events.sql",
    ]
    assert said("objects", "wide", "--sql", "scripts").status == 2, "no file is written over"

    assert f"view {schema}.seen: created" in said("objects", "wide", "--apply").out
    at_work = said("objects", "wide", "--apply", "--kind", "trigger")
    assert at_work.status == 2
    assert "48974" in at_work.err
    assert said("objects", "wide", "--definer", "nobody").status == 2
    assert said("objects", "wide", "--apply", "--enable-events").status == 2
    must("pause-task", "wide")
    both = said("objects", "wide", "--apply", "--kind", "trigger", "--kind", "event")
    assert both.status == 0, str(both)
    assert "2 objects: 2 created" in both.out
    must("objects", "wide", "--enable-events")
    found = must("objects", "wide", "--output", "json").json()["objects"]
    assert {each["name"]: each["state"] for each in found} == {
        **dict.fromkeys(("seen", "stamp", "nightly"), "equal"),
        f"{narrow}@%": "only at the target",
    }
    status = newcomer.target.query("SELECT status FROM information_schema.events WHERE event_schema = %s", [schema])
    assert status == (("ENABLED",),)
