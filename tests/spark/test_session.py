"""The session's JVM lives exactly as long as the process that asked for it, and keeps quiet."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from dm.errors import DMError
from dm.spark import java
from dm.spark.java import archive_path
from dm.spark.session import SparkProvider, spark_configuration

pytestmark = pytest.mark.spark


_OWN_SESSION = """
import pathlib, sys, threading
from dm.spark.session import SparkProvider
provider = SparkProvider("local[1]", {"spark.hadoop.fs.s3a.secret.key": "canary-7319"}, pathlib.Path(sys.argv[1]))
context = provider.context()
print(context.parallelize([1, 2]).map(lambda item: item + 1).collect(), provider.jvm_pid, flush=True)
threading.Event().wait()
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.parent.name))
    return found


def told_about(pid: int, what: str) -> bytes:
    """What any user of the machine may see of the process; nothing when it ended meanwhile, as Spark's helpers do."""
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def alone(script: str, where: str) -> str:
    """What it says in a process of its own: there is one session in each, which here may be that of other tests."""
    command = [sys.executable, "-W", "error", "-c", script, where]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_a_killed_driver_leaves_no_jvm_and_no_secret_on_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", _OWN_SESSION, str(tmp_path)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    with driver, driver.stdout:
        try:
            answer = driver.stdout.readline()
            assert answer.startswith("[2, 3] ")
            jvm = int(answer.split()[-1])
            family = [jvm, *children(jvm)]
            seen = [told for pid in family for told in (told_about(pid, "cmdline"), told_about(pid, "environ"))]
        finally:
            os.kill(driver.pid, signal.SIGKILL)
        assert driver.stdout.read() == ""
    assert any(seen)
    assert not any(b"canary-7319" in told for told in seen)
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in family):
        assert time.monotonic() < deadline
        time.sleep(0.05)


_STARTING = """
import pathlib, sys
from dm.spark.session import SparkProvider
SparkProvider("local[1]", {}, pathlib.Path(sys.argv[1], "scratch"), java_home=sys.argv[1]).context()
"""


def test_a_driver_that_is_killed_while_its_jvm_starts_leaves_none_that_cannot_tell_its_port(tmp_path: Path) -> None:
    """As when the next host removes the directory of the port while the JVM that is to write there still starts."""
    real = java.find_java_home(tmp_path / "real") / "bin" / "java"
    own = tmp_path / "bin" / "java"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\n_PYSPARK_DRIVER_CONN_INFO_PATH=/gone/gateway exec {shlex.quote(str(real))} "$@"\n')
    own.chmod(0o755)
    driver = subprocess.Popen([sys.executable, "-W", "error", "-c", _STARTING, str(tmp_path)])
    with driver:
        try:
            while not any("NoSuchFileException" in log.read_text() for log in tmp_path.glob("scratch/*/spark.log")):
                assert driver.poll() is None
                time.sleep(0.05)
            family = children(driver.pid)
            assert family
        finally:
            os.kill(driver.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in family):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_user_settings_win_over_ours_but_not_over_the_master() -> None:
    settings = spark_configuration("local[3]", {"spark.ui.enabled": "true", "spark.master": "other"}, Path("x"))
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.master"] == "local[3]"


def test_a_local_session_has_a_secret_whatever_its_settings_say() -> None:
    off = {"spark.authenticate": "false", "spark.network.crypto.enabled": "false"}
    for master in ("local[3]", "local", "local-cluster[1,1,1024]"):
        settings = spark_configuration(master, off, Path("x"))
        assert (settings["spark.authenticate"], settings["spark.network.crypto.enabled"]) == ("true", "true")
    first, second = (spark_configuration("local-cluster[1,1,1024]", {}, Path("x")) for _ in range(2))
    assert first["spark.authenticate.secret"] != second["spark.authenticate.secret"]
    assert "spark.authenticate" not in spark_configuration("spark://host:7077", {}, Path("x"))


def test_the_jvm_has_its_classes_from_the_archive_that_was_made_for_it(spark: SparkProvider, tmp_path: Path) -> None:
    spark.context()
    archive = archive_path(java.find_java_home(tmp_path), Path(_find_spark_home()))
    mapped = Path(f"/proc/{spark.jvm_pid}/maps").read_text()
    assert (str(archive) in mapped) == archive.is_file()


BY_FILE = "spark.python.unix.domain.socket.enabled"


def test_workers_of_this_host_are_reached_through_a_file_where_there_can_be_one() -> None:
    with tempfile.TemporaryDirectory(prefix="dm-") as short:
        settings = spark_configuration("local[3]", {}, Path(short))
        assert settings[BY_FILE] == "true"
        assert settings["spark.python.unix.domain.socket.dir"] == str(Path(short).resolve())
        assert list(Path(short).iterdir()) == []
        long = Path(short) / ("s" * 60)
        long.mkdir()
        assert BY_FILE not in spark_configuration("local[3]", {}, long)
        assert BY_FILE not in spark_configuration("local[3]", {}, Path(short) / "none")
        assert BY_FILE not in spark_configuration("spark://host:7077", {}, Path(short))
        own = {"spark.python.unix.domain.socket.dir": "/somewhere"}
        assert BY_FILE not in spark_configuration("local[3]", own, Path(short))


_LONGEST = """
import pathlib, sys
from dm.spark.session import SparkProvider
provider = SparkProvider("local[1]", {}, pathlib.Path(sys.argv[1]))
context = provider.context()
place = context.getConf().get("spark.python.unix.domain.socket.dir")
print(len(place), context.parallelize(range(3), 1).map(lambda number: number + 1).sum())
provider.close()
"""


@pytest.mark.chaos
def test_a_session_whose_scratch_is_as_long_as_spark_takes_it_begins() -> None:
    with tempfile.TemporaryDirectory(prefix="dm-") as short:
        left = 60 - len(os.path.realpath(short)) - len("//dm-spark-12345678")
        assert alone(_LONGEST, str(Path(short) / ("s" * left))) == "60 6\n"


_THREE_SESSIONS = """
import pathlib, sys
from dm.errors import DMError
from dm.spark.session import SparkProvider
where = pathlib.Path(sys.argv[1])

def refused(conf):
    try:
        SparkProvider("local[1]", conf, where).context()
    except DMError as error:
        print(error.name)

sockets = "spark.python.unix.domain.socket"
refused({f"{sockets}.enabled": "true", f"{sockets}.dir": str(where / "no-sockets")})
provider = SparkProvider("local[1]", {}, where)
print(provider.context().parallelize(range(3), 1).sum())
refused({"spark.driver.memory": "no-size"})
print(provider.context().parallelize(range(4), 1).sum())
provider.close()
"""


@pytest.mark.chaos
def test_a_session_that_could_not_begin_leaves_room_for_others_and_those_there_are(tmp_path: Path) -> None:
    assert alone(_THREE_SESSIONS, str(tmp_path)).split() == ["spark-start-failed", "3", "spark-start-failed", "6"]
    assert list(tmp_path.iterdir()) == []


def test_spark_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = SparkProvider("local[1]", {"spark.driver.memory": "no-size"}, tmp_path)
    with pytest.raises(DMError) as caught:
        provider.context()
    assert caught.value.name == "spark-start-failed"
    assert caught.value.cause
    assert list(tmp_path.iterdir()) == []


def test_without_any_java_the_message_names_the_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_bundled", lambda: None)
    with pytest.raises(DMError) as caught:
        java.find_java_home(tmp_path)
    assert caught.value.name == "java-missing"
    assert "openjdk" in caught.value.workaround


def test_a_java_home_of_the_task_is_taken_or_refused(tmp_path: Path) -> None:
    with pytest.raises(DMError) as caught:
        SparkProvider("local[1]", {}, tmp_path, java_home="/nowhere").context()
    assert caught.value.name == "java-missing"
    assert "`java-home`: /nowhere/bin/java is not usable" in caught.value.message


@pytest.mark.chaos
@pytest.mark.timeout(300)  # Spark waits for a master for more than a minute
def test_a_master_that_does_not_answer_is_an_error_whenever_spark_gives_up(tmp_path: Path) -> None:
    script = """
import pathlib, sys, threading
from dm.errors import DMError
from dm.spark.job import run_tasks
from dm.spark.session import SparkProvider
provider = SparkProvider("spark://127.0.0.1:1", {}, pathlib.Path(sys.argv[1]))
try:
    run_tasks(provider.context(), str, [1], threading.Event(), str, "nothing")
except DMError as error:
    print(error.name)
"""
    assert alone(script, str(tmp_path)).strip() in ("spark-start-failed", "spark-job-failed")


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(java, "_bundled", lambda: None)
    with pytest.raises(DMError) as caught:
        java.find_java_home(tmp_path)
    assert "version 11" in caught.value.message


def test_the_shim_drops_one_argument_and_keeps_all_others(tmp_path: Path) -> None:
    real = tmp_path / "real java"
    real.write_text('#!/bin/sh\nfor argument do echo "[$argument]"; done\n')
    real.chmod(0o755)
    home = java.write_shim(real, tmp_path / "home")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=other", "*"]
    printed = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["[-Xmx1g]", "[a b]", "[]", "[--add-modules=other]", "[*]"]
