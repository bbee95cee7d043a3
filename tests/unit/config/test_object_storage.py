"""`dir: s3://..` as DM writes it: what it means, what is wrong with it, and that its keys are shown to nobody."""

from __future__ import annotations

import pytest

from dm.config import ConfigErrors, SubtaskConfig, read_task
from dm.config.load import masked
from dm.config.object_storage import ObjectStorage, without_keys
from tests.unit.config.texts import TASK, source, task

KEYS = "access-key=canaryA&secret-access-key=canaryS/+="


def place(uri: str, mode: str = "all", **environ: str) -> ObjectStorage:
    text = f'{TASK}    loader: {{dir: "{uri}"}}\n'.replace("task-mode: all", f"task-mode: {mode}")
    loader = read_task(text, {"mysql-01": source()}, environ=environ).subtask("mysql-01").loader
    assert loader.storage is not None
    assert loader.dir == loader.storage.address
    return loader.storage


def refusals(uri: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        place(uri, **environ)
    assert {(each.code, each.path) for each in caught.value.problems} == {(20983, "mysql-instances[0].loader.dir")}
    return [each.message.partition(": ")[2] for each in caught.value.problems]


def test_dms_own_form() -> None:
    found = place(
        "s3://dmbucket/dump?region=us-west-2&endpoint=http://127.0.0.1:8688&access_key=a&secret_access_key=b"
        "&force_path_style=true"
    )
    assert (found.bucket, found.prefix, found.region) == ("dmbucket", "dump", "us-west-2")
    assert (found.endpoint, found.force_path_style) == ("http://127.0.0.1:8688", True)
    assert (found.access_key.get_secret_value(), found.secret_access_key.get_secret_value()) == ("a", "b")


def test_all_that_a_place_may_say() -> None:
    found = place(
        f"S3://bucket/a%20b/c/?{KEYS}&session-token=t%2Bu&force-path-style=false&use-accelerate-endpoint=true"
        "&storage-class=STANDARD_IA&sse=aws:kms&sse-kms-key-id=k&acl=private&provider=ceph"
    )
    assert (found.prefix, found.address) == ("a b/c", "s3://bucket/a b/c")
    assert (found.secret_access_key.get_secret_value(), found.session_token.get_secret_value()) == ("canaryS/+=", "t+u")
    assert (found.force_path_style, found.use_accelerate_endpoint, found.storage_class) == (False, True, "STANDARD_IA")
    assert (found.sse, found.sse_kms_key_id, found.acl) == ("aws:kms", "k", "private")


def test_a_bucket_alone_with_the_keys_of_the_environment() -> None:
    found = place("s3://bucket")
    assert (found.address, found.access_key.get_secret_value()) == ("s3://bucket", "")


def test_a_role_to_assume() -> None:
    found = place(f"s3://bucket?{KEYS}&role_arn=arn:aws:iam::888888888888:role/my-role&external-id=abc+d/1")
    assert (found.role_arn, found.external_id) == ("arn:aws:iam::888888888888:role/my-role", "abc+d/1")
    assert place("s3://bucket?external-id=abc").role_arn == "", "as in DM: it is for a role, and there is none"


def test_keys_may_be_in_variables() -> None:
    found = place("s3://bucket?access-key=${A}&secret-access-key=${S}", A="one", S="tw+o")
    assert (found.access_key.get_secret_value(), found.secret_access_key.get_secret_value()) == ("one", "tw+o")
    assert refusals("s3://bucket?access-key=${A}&secret-access-key=x") == [
        "environment variable A is not set",
        "`access-key` and `secret-access-key` come together or not at all",
    ]


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("s3:///prefix", "what stands after `s3://` is no name of a bucket"),
        ("s3://user:pass@bucket/x", "what stands after `s3://` is no name of a bucket"),
        ("s3://bucket?acess-key=a", "`acess-key` is not known there"),
        ("s3://bucket?AKIA7=", "one of its parameters is not known there"),
        ("s3://bucket?region=a&region=b", "it has `region` twice"),
        ("s3://bucket?force-path-style=1", "`force-path-style` is neither `true` nor `false`"),
        ("s3://bucket?endpoint=127.0.0.1:9000", "`endpoint` is no address such as `https://host:9000`"),
        ("s3://bucket?endpoint=http://a:b@host", "`endpoint` is no address such as `https://host:9000`"),
        ("s3://bucket?access-key=a", "`access-key` and `secret-access-key` come together or not at all"),
        ("s3://bucket?role-arn=my-role", "`role-arn` is no name of a role"),
        ("s3://bucket?external-id=a b", "`external-id` is none that a role can ask for"),
        (f"s3://bucket?{KEYS}#x", "a `#` ends its parameters"),
        (
            "s3://bucket?access-key=a&secret-access-key=******",
            "`secret-access-key` is the mask that stands in place of a secret",
        ),
    ],
)
def test_what_is_no_place(uri: str, why: str) -> None:
    assert refusals(uri) == [why]


def test_problems_and_dumps_show_no_key() -> None:
    with pytest.raises(ConfigErrors) as caught:
        place(f"s3://bucket?{KEYS}&unknown=canaryX")
    assert "canary" not in str(caught.value)
    found = place(f"s3://bucket?{KEYS}&session-token=canaryT")
    assert "canary" not in f"{found!r} {found.model_dump()} {found.model_dump_json()}"


def test_the_wire_carries_the_keys() -> None:
    subtask = task(f'{TASK}    loader: {{dir: "s3://bucket/x?{KEYS}"}}\n').subtask("mysql-01")
    assert "canary" not in repr(subtask)
    copy = SubtaskConfig.from_wire(subtask.to_wire())
    assert copy == subtask
    assert copy.loader.storage is not None
    assert copy.loader.storage.secret_access_key.get_secret_value() == "canaryS/+="


@pytest.mark.parametrize(
    ("prefix", "inside"),
    [("", "t.s"), ("dump", "dump/t.s"), ("dump/t.s", "dump/t.s"), ("t.s", "t.s"), ("dumpt.s", "dumpt.s/t.s")],
)
def test_a_tasks_part_of_a_place(prefix: str, inside: str) -> None:
    assert ObjectStorage(bucket="b", prefix=prefix).within("t.s").prefix == inside


def test_a_file_is_shown_without_the_keys_of_a_place() -> None:
    text = (
        f"loaders:\n  a:\n    dir: s3://b/p?endpoint=http://h:1&{KEYS}&session_token=canaryT # ours\n    pool-size: 1\n"
    )
    shown = masked(text)
    assert "canary" not in shown
    assert shown == (
        "loaders:\n  a:\n    dir: 's3://b/p?endpoint=http://h:1&access-key=******&secret-access-key=******"
        "&session_token=******' # ours\n    pool-size: 1\n"
    )
    assert masked(shown) == shown


@pytest.mark.parametrize(
    "uri", ["s3://b/p", "s3://b?region=x", "s3://b?access-key=${KEY}&secret-access-key=${SECRET}", "s3://b?access-key="]
)
def test_what_is_no_secret_stays_as_it_was_written(uri: str) -> None:
    assert without_keys(uri) == uri
    assert masked(f"dir: {uri}\n") == f"dir: {uri}\n"


@pytest.mark.parametrize("sorting", ["./sorting.shop", "./dumped_data.shop.sorting"])
def test_dms_own_directories_for_sorting_ask_for_nothing(sorting: str) -> None:
    text = f"{TASK}    loader: {{dir: 's3://bucket/x', sorting-dir-physical: {sorting}}}\n"
    assert task(text).warnings == ()
