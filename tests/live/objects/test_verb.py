"""`dmctl objects`, as a person gives it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.cli.newcomer import Newcomer
from tests.testbed.cases import SOURCE_GRANTS, TARGET_GRANTS, TEMPORARY_GRANT
from tests.testbed.park import ServerPark
from tests.testbed.zones import globally
from tests.unit.docs.document import blocks

pytestmark = pytest.mark.live


@pytest.fixture
def newcomer(park: ServerPark, tmp_path: Path) -> Iterator[Newcomer]:
    one = Newcomer(park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target"), tmp_path)
    with one.daemon, globally(one.target, log_bin_trust_function_creators="ON"):  # of the page, too
        yield one
        one.close()
        for server in (one.upstream, one.target):
            server.execute("DROP USER IF EXISTS shop_app@'%'")


PAGE = Path(__file__).parents[3] / "docs" / "objects.md"


def grant_as_documented(server: ThrowawayServer, side: str, user: str) -> None:
    """What the page says that an account needs beside README's GRANTs, and nothing else."""
    heading = f"-- at a {'MariaDB' if server.flavor == 'mariadb' else 'MySQL'} {side}"
    (block,) = [each.text for each in blocks(PAGE.read_text(encoding="utf-8")) if each.text.startswith(heading)]
    for line in re.sub(r"^--.*", "", block, flags=re.MULTILINE).split(";"):
        if line.strip():
            server.execute(line.replace("'dm'", f"'{user}'"))


def demand_documented(said: str, schema: str) -> None:
    """The page has these lines, for a schema `shop`."""
    page = PAGE.read_text(encoding="utf-8").splitlines()
    lines = [line.replace(schema, "shop") for line in said.splitlines()]
    assert [line for line in lines if line not in page] == []


def test_from_the_list_to_the_enabled_event(newcomer: Newcomer) -> None:
    schema, said, must = newcomer.schema, newcomer.daemon.said, newcomer.daemon.must
    newcomer.upstream.execute(
        f"CREATE VIEW {schema}.seen AS SELECT id FROM {schema}.orders",
        f"CREATE TRIGGER {schema}.stamp BEFORE INSERT ON {schema}.orders FOR EACH ROW SET NEW.v = 'x'",
        f"CREATE EVENT {schema}.nightly ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "CREATE USER shop_app@'%' IDENTIFIED BY 'its own'",
        f"GRANT SELECT, INSERT ON {schema}.orders TO shop_app@'%'",
    )
    narrow = newcomer.good_target_user()
    wide = newcomer.user(newcomer.target, TARGET_GRANTS, TEMPORARY_GRANT)
    grant_as_documented(newcomer.target, "target", wide)
    at_source = newcomer.user(newcomer.upstream, SOURCE_GRANTS["mariadb"])
    grant_as_documented(newcomer.upstream, "source", at_source)
    source = newcomer.source_text("here", at_source)
    must("operate-source", "create", newcomer.file("source.yaml", source))
    must("start-task", newcomer.file("narrow.yaml", newcomer.task_text("narrow", "here", narrow)))
    must("start-task", newcomer.file("wide.yaml", newcomer.task_text("wide", "here", wide)))

    def documented(*words: str, status: int) -> str:
        """An answer without the account of the other task, and those of other tests."""
        answer = said("objects", "wide", *words)
        assert answer.status == status, str(answer)
        *lines, _ = answer.out.splitlines()
        lines = [each for each in lines if narrow not in each and not each.startswith(("note", "file"))]
        demand_documented("\n".join(lines), schema)
        return answer.out

    documented(status=1)
    refused = said("objects", "narrow", "--apply")
    assert refused.status == 1
    assert "GRANT CREATE VIEW ON" in refused.out, "what is lacking can be copied"
    assert "account *: refused" in refused.out
    written = documented("--sql", "scripts", status=1)
    assert [line.rpartition("/")[2] for line in written.splitlines() if line.startswith("file: ")] == [
        "1-accounts.sql",
        "3-views.sql",
        "4-grants.sql",
        "5-triggers.sql",
        "6-events.sql",
    ]
    assert said("objects", "wide", "--sql", "scripts").status == 2, "no file is written over"

    documented("--apply", status=1)
    at_work = said("objects", "wide", "--apply", "--kind", "trigger")
    assert at_work.status == 2
    assert "48974" in at_work.err
    assert said("objects", "wide", "--definer", "nobody").status == 2
    assert said("objects", "wide", "--apply", "--enable-events").status == 2
    must("pause-task", "wide")
    documented("--apply", "--kind", "trigger", "--kind", "event", status=0)
    disabled = must("objects", "wide", "--kind", "event", "--output", "json").json()["objects"][0]
    assert (disabled["status"], disabled["sourceStatus"]) == ("DISABLED", "ENABLED")
    documented(status=0)
    must("objects", "wide", "--enable-events")
    found = must("objects", "wide", "--output", "json").json()["objects"]
    mine = {each["name"]: each["state"] for each in found if narrow not in each["name"]}
    assert mine == dict.fromkeys(("seen", "stamp", "nightly", "shop_app@%"), "equal")
    assert [(each["status"], each["findings"]) for each in found if each["kind"] == "event"] == [("ENABLED", [])]
    status = newcomer.target.query("SELECT status FROM information_schema.events WHERE event_schema = %s", [schema])
    assert status == (("ENABLED",),)
