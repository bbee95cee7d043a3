"""What a dump relies on, in a directory and in object storage: files whole or absent, and the first one stays."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from dm.dumpfiles import s3_client, s3_storage
from dm.dumpfiles.dump_files import (
    METADATA_FILE,
    PLAN_FILE,
    DumpedTable,
    foreign_file,
    load_plan,
    remove_files,
    save_plan,
)
from dm.dumpfiles.s3_storage import S3Storage
from dm.dumpfiles.storage import DumpStorage, LocalStorage, read_bytes
from dm.errors import DMError
from dm.ident import TableName
from tests.testbed.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.unit.dumpfiles.test_dump_files import plan_with

pytestmark = pytest.mark.live

MakeStorage = Callable[[], DumpStorage]


@pytest.fixture
def at_s3(s3: S3Server, tmp_path: Path) -> S3Storage:
    return S3Storage(s3.place(f"dumps/{uuid.uuid4().hex}/task.source"), tmp_path / "work")


@pytest.fixture(params=["directory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> DumpStorage:
    made: DumpStorage
    if request.param == "directory":
        made = LocalStorage(tmp_path / "dump")
    else:
        made = request.getfixturevalue("at_s3")
    made.prepare()
    return made


def write(storage: DumpStorage, name: str, *parts: bytes) -> bool:
    with storage.create(name) as file:
        for part in parts:
            assert file.write(memoryview(part)) == len(part)
        return file.publish()


def test_files_are_written_listed_read_and_removed(storage: DumpStorage) -> None:
    assert storage.names() == []
    storage.store({"a": b"1", "ü b%2E/".rstrip("/"): b"", "c": b"3" * 5000})
    storage.store({"a": b"other"})
    assert sorted(storage.names()) == ["a", "c", "ü b%2E"]
    assert (read_bytes(storage, "a"), storage.size("c"), read_bytes(storage, "ü b%2E")) == (b"other", 5000, b"")
    storage.rename("a", "z")
    assert sorted(storage.names()) == ["c", "z", "ü b%2E"]
    storage.remove(["c", "absent", "ü b%2E"])
    assert storage.names() == ["z"]
    assert storage.shown("z") == f"{storage}/z"


def test_an_absent_file_is_no_error_of_the_place(storage: DumpStorage) -> None:
    with pytest.raises(FileNotFoundError):
        read_bytes(storage, "absent")
    with pytest.raises(FileNotFoundError):
        storage.size("absent")
    assert load_plan(storage) is None


def test_the_first_one_stays_and_nothing_is_left_over(storage: DumpStorage) -> None:
    assert write(storage, "chunk", b"fi", b"", b"rst")
    assert not write(storage, "chunk", b"second")
    assert (read_bytes(storage, "chunk"), storage.names()) == (b"first", ["chunk"])


def test_what_is_not_published_never_was(storage: DumpStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_storage, "_FIRST_PART", 5 << 20)
    with storage.create("chunk") as file:
        file.write(memoryview(b"x" * (11 << 20)))
    assert storage.names() == []
    storage.sweep()
    assert write(storage, "chunk", b"whole")


def test_a_file_of_many_parts_is_read_in_any_order(storage: DumpStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_storage, "_FIRST_PART", 5 << 20)
    content = b"".join(number.to_bytes(4, "big") for number in range(3 << 20))
    assert write(storage, "chunk", content[: 7 << 20], content[7 << 20 :])
    assert not write(storage, "chunk", content[::-1])
    with storage.open("chunk") as file:
        assert file.seek(-5, 2) == len(content) - 5
        assert file.read() == content[-5:]
        file.seek(123_457)
        assert file.read(2 << 20) == content[123_457 : 123_457 + (2 << 20)]
        file.seek(0)
        assert file.read() == content


def test_a_dump_is_removed_and_what_is_of_others_stays(storage: DumpStorage) -> None:
    plan = plan_with(DumpedTable(TableName("a", "b"), "CREATE TABLE `b` (`c` int)"))
    storage.store({"mine.txt": b"", "a.b.000.1.parquet": b"", METADATA_FILE: b""})
    assert foreign_file(storage) == "a.b.000.1.parquet"
    save_plan(storage, plan)
    assert (load_plan(storage), foreign_file(storage)) == (plan, None)
    remove_files(storage)
    assert sorted(storage.names()) == ["a.b.000.1.parquet", "mine.txt"]
    remove_files(storage)
    assert sorted(storage.names()) == ["a.b.000.1.parquet", "mine.txt"]


def test_a_removal_that_died_at_its_mark_leaves_the_plan_and_is_asked_for_again(at_s3: S3Storage) -> None:
    plan = plan_with(DumpedTable(TableName("a", "b"), "CREATE TABLE `b` (`c` int)"))
    at_s3.prepare()
    save_plan(at_s3, plan)
    at_s3.store({METADATA_FILE: b"", ".dump-removed.json": read_bytes(at_s3, PLAN_FILE)})
    assert load_plan(at_s3) == plan
    remove_files(at_s3)
    assert at_s3.names() == []


def test_what_a_killed_writer_has_sent_is_swept(at_s3: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_storage, "_FIRST_PART", 5 << 20)
    at_s3.prepare()
    neighbour = replace(at_s3, place=at_s3.place.model_copy(update={"prefix": f"{at_s3.place.prefix}2"}))
    with at_s3.create("late") as late, neighbour.create("other") as other:
        for file in (late, other):
            file.write(memoryview(b"x" * (6 << 20)))
        assert len(at_s3._uploads()) == 1
        at_s3.sweep()
        assert at_s3._uploads() == []
        assert other.publish(), "it is of another place"
        with pytest.raises(DMError) as caught:
            late.publish()
    assert (caught.value.name, caught.value.retryable) == ("object-storage-unreachable", True)
    assert at_s3.names() == []


def test_other_tasks_are_not_seen(at_s3: S3Storage) -> None:
    place = at_s3.place
    other = replace(at_s3, place=place.model_copy(update={"prefix": f"{place.prefix}/below"}))
    other.store({"a": b""})
    assert (at_s3.names(), other.names()) == ([], ["a"])


def test_a_place_of_a_worker_is_the_drivers(storage: DumpStorage) -> None:
    copy = pickle.loads(pickle.dumps(storage))
    assert write(copy, "a", b"1")
    assert read_bytes(storage, "a") == b"1"


def test_a_place_that_can_be_used_is_left_as_it_was(storage: DumpStorage) -> None:
    assert storage.refusal() is None
    assert storage.names() == []


def test_a_place_that_can_not_be_used_says_why(s3: S3Server, tmp_path: Path) -> None:
    missing = S3Storage(s3.place("a", bucket="no-such-bucket"), tmp_path / "work").refusal()
    assert missing is not None
    assert (missing.name, "s3://no-such-bucket/a" in missing.message) == ("object-storage-refused", True)
    assert "NoSuchBucket" in missing.cause
    (tmp_path / "file").touch()
    here = S3Storage(s3.place("a"), tmp_path / "file" / "work").refusal()
    assert here is not None
    assert here.name == "dump-directory-unusable"


def test_nobody_answers(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "_ATTEMPTS", 1)
    place = s3.place("a").model_copy(update={"endpoint": "http://127.0.0.1:9"})
    silent = S3Storage(place, tmp_path / "work").refusal()
    assert silent is not None
    assert (silent.name, silent.retryable) == ("object-storage-unreachable", True)
    assert "127.0.0.1:9" in silent.cause


def test_a_store_that_knows_no_conditions_is_refused(at_s3: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    send = s3_storage.ObjectWriter._make

    def unconditional(writer: s3_storage.ObjectWriter) -> None:
        writer._client = _Unconditional(writer._client)
        send(writer)

    monkeypatch.setattr(s3_storage.ObjectWriter, "_make", unconditional)
    with pytest.raises(DMError) as caught:
        at_s3.prepare()
    assert caught.value.name == "object-storage-replaces"
    assert at_s3.names() == []


class _Unconditional:
    """A client whose requests lose their condition on the way, as a store would lose it that does not know it."""

    def __init__(self, client: object) -> None:
        self._client = client

    def put_object(self, **request: object) -> object:
        return self._client.put_object(**{k: v for k, v in request.items() if k != "IfNoneMatch"})  # type: ignore[attr-defined]


def test_keys_are_in_no_text(s3: S3Server, tmp_path: Path) -> None:
    place = s3.place("a", bucket="no-such-bucket").model_copy(
        update={"endpoint": f"http://127.0.0.1:9/{SECRET_KEY}", "session_token": SecretStr("canary-token")}
    )
    storage = S3Storage(place, tmp_path / "work")
    error = storage.refusal()
    assert error is not None
    assert "127.0.0.1:9" in error.cause
    shown = S3Storage(place.model_copy(update={"endpoint": s3.endpoint}), tmp_path)
    texts = (str(shown), repr(shown), shown.shown("x"), str(error), error.cause, repr(shown.place.model_dump()))
    assert [text for text in texts for key in (ACCESS_KEY, SECRET_KEY, "canary-token") if key in text] == []
