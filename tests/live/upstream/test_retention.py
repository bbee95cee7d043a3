"""After how long a server purges its binlog by itself, as it is set now."""

from __future__ import annotations

from contextlib import closing

import pytest
from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.mysql.dialect import Flavor
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_kept_seconds
from tests.testbed.fixtures import ServerFactory

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mariadb")
def test_it_is_read_as_the_server_has_it(server: ServerFactory, flavor: Flavor) -> None:
    one = server(flavor)
    one.create_user("reader", "secret-12", "SELECT ON *.*")
    endpoint = Endpoint(host=one.host, port=one.port, user="reader", password=SecretStr("secret-12"))
    with closing(connect(endpoint)) as connection:
        one.execute("SET GLOBAL binlog_expire_logs_seconds = 86401")
        assert binlog_kept_seconds(connection) == 86401
        one.execute("SET GLOBAL binlog_expire_logs_seconds = 0")
        assert binlog_kept_seconds(connection) == 0
        if flavor == "mysql":
            one.execute("SET GLOBAL binlog_expire_logs_seconds = 5", "SET GLOBAL binlog_expire_logs_auto_purge = OFF")
            assert binlog_kept_seconds(connection) == 0
        else:  # MySQL has had no days since 8.4
            one.execute("SET GLOBAL expire_logs_days = 2")
            assert binlog_kept_seconds(connection) == 2 * 86400
