"""A role that is assumed for a dump in object storage, at a server that knows who may do what."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.credentials import CachedCredentialFetcher, RefreshableCredentials
from pydantic import SecretStr

from dm.config.object_storage import ObjectStorage
from dm.dumpfiles.s3_storage import S3Storage
from dm.dumpfiles.storage import read_bytes
from tests.testbed.s3 import ACCESS_KEY, SECRET_KEY, S3Server

pytestmark = pytest.mark.live


@pytest.fixture
def account(s3: S3Server) -> Iterator[ObjectStorage]:
    """A place whose keys may assume one role and do nothing else; the role may do all in the store."""
    name = f"dumps-{uuid.uuid4().hex[:8]}"
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
    accounts = boto3.client("iam", endpoint_url=s3.endpoint, **keys)
    role = accounts.create_role(RoleName=name, AssumeRolePolicyDocument=_policy("sts:AssumeRole", "*"))["Role"]["Arn"]
    accounts.put_role_policy(RoleName=name, PolicyName="dumps", PolicyDocument=_policy("s3:*", "*"))
    accounts.create_user(UserName=name)
    accounts.put_user_policy(UserName=name, PolicyName="role", PolicyDocument=_policy("sts:AssumeRole", role))
    made = accounts.create_access_key(UserName=name)["AccessKey"]
    with s3.demanding_permissions():
        yield s3.place(f"dumps/{name}").model_copy(
            update={
                "access_key": SecretStr(made["AccessKeyId"]),
                "secret_access_key": SecretStr(made["SecretAccessKey"]),
                "role_arn": role,
                "external_id": f"of-{name}",
            }
        )


def _policy(action: str, resource: str) -> str:
    allowed: dict[str, Any] = {"Effect": "Allow", "Action": action}
    allowed |= {"Principal": {"AWS": "*"}} if action.startswith("sts") and resource == "*" else {"Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [allowed]})


def _assumed(s3: S3Server, place: ObjectStorage) -> list[dict[str, str]]:
    return [role for role in s3.known()["sts"]["AssumedRole"] if role["external_id"] == place.external_id]


def test_the_roles_permissions_hold_and_not_those_of_the_keys(
    s3: S3Server, account: ObjectStorage, tmp_path: Path
) -> None:
    with_keys = S3Storage(account.model_copy(update={"role_arn": ""}), tmp_path / "a").refusal()
    assert with_keys is not None
    assert (with_keys.name, "AccessDenied" in with_keys.cause) == ("object-storage-refused", True)
    storage = S3Storage(account, tmp_path / "b")
    assert storage.refusal() is None
    storage.store({"a": b"1"})
    assert (read_bytes(storage, "a"), storage.names()) == (b"1", ["a"])
    assert [role["role_arn"] for role in _assumed(s3, account)] == [account.role_arn], "asked for once"


def test_a_role_that_the_keys_may_not_assume_is_named(account: ObjectStorage, tmp_path: Path) -> None:
    keys_of_nobody = account.model_copy(update={"access_key": SecretStr("canary-of-nobody")})
    refusal = S3Storage(keys_of_nobody, tmp_path / "work").refusal()
    assert refusal is not None
    assert (refusal.name, "AssumeRole" in refusal.cause) == ("object-storage-refused", True)
    assert "canary" not in refusal.cause


def test_keys_that_are_about_to_end_are_asked_for_anew(
    s3: S3Server, account: ObjectStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer_than_they_hold = 2 * 3600
    for name in ("_advisory_refresh_timeout", "_mandatory_refresh_timeout"):
        monkeypatch.setattr(RefreshableCredentials, name, longer_than_they_hold)
    monkeypatch.setattr(CachedCredentialFetcher, "DEFAULT_EXPIRY_WINDOW_SECONDS", longer_than_they_hold)
    storage = S3Storage(account, tmp_path / "work")
    assert storage.names() == []
    before = len(_assumed(s3, account))
    assert storage.names() == []
    assert len(_assumed(s3, account)) > before > 0
