"""What the fence of a cut-over holds back at a source."""

from __future__ import annotations

from contextlib import closing

import pymysql
import pytest

from dm.demo.private_server import PrivateServer
from dm.mysql.dialect import Flavor
from dm.tools.cutover.source import close, closed, findings, modes, reopen
from tests.live.upstream.group import endpoint_at, source_at, subtask_of
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


def test_an_open_transaction_cannot_commit_once_the_source_is_fenced(server: ServerFactory, flavor: Flavor) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    source.create_user("app", "p", "ALL ON d.*")
    subtask = subtask_of(source_at(endpoint_at(source)), source, source, "fence")
    before = modes(subtask)
    assert [each for each in findings(subtask, fences=True) if each.stops] == []
    with closing(source.connect(user="app", password="p", autocommit=False)) as open_one, open_one.cursor() as cursor:
        cursor.execute("INSERT INTO d.t VALUES (1)")
        close(subtask)
        assert closed(subtask)
        with pytest.raises(pymysql.err.OperationalError) as refused:
            open_one.commit()
        assert refused.value.args[0] == 1290, "the server runs with read_only"
    assert _rows(source) == 0
    reopen(subtask, before)
    assert modes(subtask) == before
    with closing(source.connect(user="app", password="p")) as again, again.cursor() as cursor:
        cursor.execute("INSERT INTO d.t VALUES (2)")
    assert _rows(source) == 1


def _rows(source: PrivateServer) -> int:
    return int(str(source.query("SELECT COUNT(*) FROM d.t")[0][0]))
