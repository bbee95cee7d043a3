"""A new user's first day: dm on a Debian that has nothing of it, as a service of systemd, seen in a browser.

The steps of docs/service.md are carried out as they stand, in a Debian of its own (tests/testbed/machine.py), with
the packages of `make packages` and without the source tree. Then a statement that the target refuses pauses the task, a
real Prometheus fires its alert, and a person with a browser and a token mends it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.private_server import free_port
from dm.demo.servers import ThrowawayServer
from tests.testbed import alert_rules
from tests.testbed.browser import Watched, chromium
from tests.testbed.certificates import Authority
from tests.testbed.looks import looks
from tests.testbed.machine import Machine, machine
from tests.testbed.park import ServerPark
from tests.testbed.prometheus import Prometheus
from tests.unit.docs.document import ROOT

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(3600)]

PASSWORD = "canary-secret-90cd"
SECONDS = 300.0  # a limit for what hangs
DMCTL = ("runuser", "-u", "dm", "--", "env", "DM_HOME=/var/lib/dm", "/opt/dm/bin/dmctl")
SOURCE = """
source-id: one
from: {{host: 127.0.0.1, port: {source}, user: dm, password: {password}}}
"""
TASK = """
name: shop
task-mode: all
target-database: {{host: 127.0.0.1, port: {target}, user: dm, password: {password}}}
mysql-instances: [{{source-id: one, block-allow-list: b}}]
block-allow-list: {{b: {{do-dbs: [shop]}}}}
spark: {{master: 'local[1]'}}
"""


def installing_steps() -> list[str]:
    """The commands of the chapter, as root types them."""
    chapter = (ROOT / "docs" / "service.md").read_text(encoding="utf-8").partition("## Installing")[2]
    blocks = re.findall(r"```console\n(# .*?)```", chapter.partition("\n## ")[0], re.S)
    return [line.removeprefix("# ") for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def wheels(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, and those of all packages that it needs, so that nothing is fetched over there."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("Debian 12 has Python 3.11, so the wheels are made with that")
    directory = tmp_path_factory.mktemp("wheels")
    (fitting,) = dist.glob("*-cp311-*.whl")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(directory), f"{fitting}[worker]"]
    subprocess.run(command, check=True, timeout=1500)
    return directory


@pytest.fixture
def debian(wheels: Path, tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path / "machine", {"/opt/wheels": wheels}) as one:
        yield one


@pytest.fixture
def servers(park: ServerPark) -> Iterator[tuple[ThrowawayServer, ThrowawayServer]]:
    pair = [park.own("mariadb", gtid=True, options={}).start() for _ in range(2)]
    for server in pair:
        server.create_user("dm", PASSWORD, "ALL ON *.*")
    pair[0].execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
    yield pair[0], pair[1]
    for server in pair:
        server.destroy()


def installed(debian: Machine, certificates: Authority) -> tuple[str, str]:
    """Carry out the steps, and give it its ports; the addresses of the page and of the metrics."""
    for step in installing_steps():
        debian.run("/bin/sh", "-ec", f"cd /opt/wheels; {step}", PIP_NO_INDEX="1", PIP_FIND_LINKS="/opt/wheels")
    certificate, key = certificates.signed("dm", addresses=("127.0.0.1",))
    debian.put("/etc/dm/dm.pem", certificate.read_bytes())
    debian.put("/etc/dm/dm.key", key.read_bytes(), 0o400, "dm:dm")
    page, metrics = f"0.0.0.0:{free_port()}", f"127.0.0.1:{free_port()}"
    tls = "--ssl-cert /etc/dm/dm.pem --ssl-key /etc/dm/dm.key"
    arguments = f'[Service]\nEnvironment="ARGUMENTS=--listen {page} --metrics-addr {metrics} {tls}"\n'
    debian.put("/etc/systemd/system/dm-worker.service.d/override.conf", arguments.encode())
    debian.run("systemctl", "daemon-reload")
    debian.run("systemctl", "restart", "dm-worker")  # it returns when requests are answered
    return page.replace("0.0.0.0", "127.0.0.1"), metrics


def scraped(debian: Machine, directory: Path, authority: Authority, metrics: str) -> Prometheus:
    directory.mkdir()
    token = directory / "metrics-token"
    token.write_text(debian.run("cat", "/var/lib/dm/metrics-token").stdout)
    return Prometheus(directory).start(
        "global: {scrape_interval: 10s, scrape_timeout: 10s, evaluation_interval: 1s}\n"
        f"rule_files: [{alert_rules.sooner(directory)}]\nscrape_configs:\n"
        f"  - {{job_name: dm, scheme: https, tls_config: {{ca_file: {authority.file}}}, authorization:"
        f" {{credentials_file: {token}}}, static_configs: [{{targets: ['{metrics}']}}]}}\n"
    )


def fires(prometheus: Prometheus, alert: str) -> bool:
    return bool(prometheus.query(f'ALERTS{{alertname="{alert}", alertstate="firing"}}'))


def test_installed_watched_and_mended_from_the_page(
    debian: Machine, servers: tuple[ThrowawayServer, ThrowawayServer], tmp_path: Path
) -> None:
    source, target = servers
    authority = Authority(tmp_path / "ca")
    page, metrics = installed(debian, authority)
    rated = debian.run("systemd-analyze", "security", "--no-pager", "dm-worker").stdout
    exposure = re.search(r"Overall exposure level for .*: ([\d.]+)", rated)
    assert exposure is not None, rated
    assert float(exposure[1]) < 3, rated

    for name, text in (("one.yaml", SOURCE), ("shop.yaml", TASK)):
        filled = text.format(source=source.port, target=target.port, password=PASSWORD)
        debian.put(f"/srv/{name}", filled.encode(), 0o400, "dm:dm")
    debian.run(*DMCTL, "operate-source", "create", "/srv/one.yaml")
    debian.run(*DMCTL, "start-task", "/srv/shop.yaml")
    debian.run(*DMCTL, "wait", "shop", "--synced", "--timeout", "300")
    assert target.query("SELECT * FROM shop.t") == ((1,),)
    token = debian.run(*DMCTL, "token", "create", "anna", "--permission", "change").stdout.strip()

    prometheus = scraped(debian, tmp_path / "prometheus", authority, metrics)
    prometheus.until('up{job="dm"}', 1)
    assert not fires(prometheus, "DM_task_state")
    target.execute("ALTER TABLE shop.t ADD COLUMN paid BIGINT")
    source.execute("ALTER TABLE shop.t ADD COLUMN paid INT", "INSERT INTO shop.t VALUES (2, 20)", "COMMIT")
    assert any(fires(prometheus, "DM_task_state") for _ in looks(SECONDS)), prometheus.rules()

    with chromium() as browser:
        visit = Watched(browser, ignore_https_errors=True)  # the browser does not know this CA
        visit.log_in(f"https://{page}/", token)
        visit.page.click("article a:has-text('shop')")
        visit.page.wait_for_selector("text=Paused by error 36910")
        visit.page.click(".verbs a:has-text('Skip the failing statement')")
        visit.page.click("form.question button")
        visit.page.wait_for_selector(".notice.done")  # then the task goes on
        visit.page.wait_for_selector("text=everything is applied", timeout=SECONDS * 1000)
        assert visit.complaints == []
        visit.close()
    assert target.query("SELECT * FROM shop.t ORDER BY id") == ((1, None), (2, 20))
    assert any(not fires(prometheus, "DM_task_state") for _ in looks(SECONDS)), prometheus.rules()
    prometheus.stop()

    # It comes back when it is killed, and goes on.
    debian.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "dm-worker")
    source.execute("INSERT INTO shop.t VALUES (3, 30)", "COMMIT")
    restarts = ("systemctl", "show", "--property=NRestarts,ActiveState", "dm-worker")
    assert any({"NRestarts=1", "ActiveState=active"} == {*debian.run(*restarts).stdout.split()} for _ in looks(SECONDS))
    debian.run(*DMCTL, "wait", "shop", "--synced", "--timeout", "300")
    assert any(len(target.query("SELECT * FROM shop.t")) == 3 for _ in looks(SECONDS))
    debian.run("systemctl", "stop", "dm-worker")
    assert debian.run("systemctl", "show", "--property=Result", "dm-worker").stdout.strip() == "Result=success"
