"""A job hears of each item, carries errors as they are, and stops when told."""

from __future__ import annotations

import os
import secrets
import signal
import stat
import threading
from pathlib import Path

import pytest
from pyspark import cloudpickle

from dm.errors import DMError
from dm.spark.job import ExecutorWatch, Stored, reaching_workers, run_tasks
from dm.spark.session import SparkProvider
from tests.testbed.fake_clock import FakeClock

pytestmark = pytest.mark.spark


def test_every_item_is_worked_on_and_heard_of(spark: SparkProvider) -> None:
    heard: list[int] = []
    assert run_tasks(spark.context(), lambda item: item * 2, range(50), threading.Event(), heard.append, "double")
    assert sorted(heard) == [item * 2 for item in range(50)]


def test_no_closure_has_what_the_function_has(spark: SparkProvider) -> None:
    password, context = secrets.token_hex(16), spark.context()

    def work(item: int) -> str:
        return password[item]

    with reaching_workers(context, work) as reaching:
        assert isinstance(reaching, Stored)
        assert password.encode() not in cloudpickle.dumps(reaching)  # type: ignore[no-untyped-call]
        assert password.encode() not in Path(reaching.path).read_bytes()
        assert stat.S_IMODE(os.stat(reaching.path).st_mode) == 0o600
        assert reaching(3) == password[3]
    assert not os.path.lexists(reaching.path)


def test_nothing_to_do_is_done(spark: SparkProvider) -> None:
    heard: list[int] = []
    assert run_tasks(spark.context(), lambda item: item, [], threading.Event(), heard.append, "nothing")


def test_an_error_of_a_task_arrives_as_that_error(spark: SparkProvider) -> None:
    def work(item: int) -> int:
        if item == 3:
            raise DMError("dump-table-unstable", table="a.b", rounds=2, cause="in the server's words")
        return item

    with pytest.raises(DMError) as caught:
        run_tasks(spark.context(), work, range(5), threading.Event(), lambda _: None, "fail")
    assert caught.value.name == "dump-table-unstable"
    assert caught.value.message == "table a.b changed its structure during each of 2 reads"
    assert caught.value.cause == "in the server's words"
    assert caught.value.retryable


def test_a_machine_that_takes_its_time_is_not_said_to_lack_executors(spark: SparkProvider) -> None:
    said: list[str] = []
    clock = FakeClock()
    with ExecutorWatch(spark.context(), said.append, clock) as watch:
        clock.now += 60  # without a task
        watch.look()
    assert said == []


def test_no_more_items_at_once_than_asked_for(spark: SparkProvider, tmp_path: Path) -> None:
    assert spark.context().defaultParallelism == 2

    def work(item: int) -> int:
        (tmp_path / "busy").open("x").close()  # fails when another item is being worked on
        (tmp_path / "busy").unlink()
        return item

    heard: list[int] = []
    assert run_tasks(spark.context(), work, range(8), threading.Event(), heard.append, "in turn", at_once=1)
    assert sorted(heard) == list(range(8))


def test_an_error_ends_all_lanes(spark: SparkProvider) -> None:
    def work(item: int) -> int:
        return 1 // (item - 2)

    heard: list[int] = []
    with pytest.raises(DMError) as caught:
        run_tasks(spark.context(), work, range(1000), threading.Event(), heard.append, "fail", at_once=1)
    assert caught.value.name == "internal-error"
    assert len(heard) < 1000


def test_a_defect_in_a_task_is_an_internal_error_with_its_traceback(spark: SparkProvider) -> None:
    with pytest.raises(DMError) as caught:
        run_tasks(spark.context(), lambda item: 1 // item, [0], threading.Event(), lambda _: None, "fail")
    assert caught.value.name == "internal-error"
    assert "ZeroDivisionError" in caught.value.cause


def test_a_lost_worker_is_an_error_that_can_be_tried_again(spark: SparkProvider) -> None:
    def work(_item: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(DMError) as caught:
        run_tasks(spark.context(), work, [1], threading.Event(), lambda _: None, "die")
    assert caught.value.name == "spark-job-failed"
    assert caught.value.retryable
    assert run_tasks(spark.context(), lambda item: item, [1], threading.Event(), lambda _: None, "live")


def test_a_stop_kills_what_is_under_way(spark: SparkProvider, tmp_path: Path) -> None:
    def work(item: int) -> None:
        (tmp_path / f"started-{item}").write_text(str(os.getpid()))
        threading.Event().wait()

    stop = threading.Event()

    def stop_when_started() -> None:
        while not list(tmp_path.glob("started-*")):
            threading.Event().wait(0.02)
        stop.set()

    watcher = threading.Thread(target=stop_when_started)
    watcher.start()
    assert not run_tasks(spark.context(), work, [1, 2], stop, lambda _: None, "wait")
    watcher.join()
    # Other jobs of the session are not touched by the cancelled one.
    heard: list[int] = []
    assert run_tasks(spark.context(), lambda item: item, [1, 2], threading.Event(), heard.append, "next")
    assert sorted(heard) == [1, 2]


def test_fault_points_strike_in_workers_until_one_was_lost(
    spark: SparkProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from dm import faults
    from dm.spark import job

    def work(item: int) -> int:
        faults.hit("dumper.chunk_written")
        return item

    monkeypatch.setattr(job, "_workers_lost", False)
    monkeypatch.setenv("DM_FAULTS", "dumper.chunk_written=kill")
    with pytest.raises(DMError) as caught:
        run_tasks(spark.context(), work, [1], threading.Event(), lambda _: None, "strike")
    assert caught.value.name == "spark-job-failed"
    assert run_tasks(spark.context(), work, [1], threading.Event(), lambda _: None, "once only")
