"""What check-task says of row events where no GRANT would bring them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dm.mysql.dialect import dialect
from dm.task.precheck.access import privilege
from dm.task.precheck.context import Answers


def test_a_sql_mode_of_the_session_keeps_them_back() -> None:
    facts = SimpleNamespace(flavor="mysql", version=90704, version_text="9.7.4", dialect=dialect("mysql", 90704))
    config = SimpleNamespace(
        syncer=SimpleNamespace(row_format="auto"), target=SimpleNamespace(session={"sql_mode": "STRICT_ALL_TABLES"})
    )
    context: Any = SimpleNamespace(
        config=config, source=SimpleNamespace(facts=facts), target=SimpleNamespace(facts=facts)
    )
    (result,) = privilege(context, Answers("row_events", "s"))
    assert (result.state, "sql_mode" in result.message, "GRANT" in result.message) == ("success", True, False)
