"""What is said where boto3 is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.config.object_storage import ObjectStorage
from dm.dumpfiles import s3_client
from dm.dumpfiles.s3_storage import S3Storage


@pytest.fixture
def without_boto3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    s3_client.client_of.cache_clear()
    monkeypatch.setitem(sys.modules, "boto3", None)
    yield
    s3_client.client_of.cache_clear()


@pytest.mark.usefixtures("without_boto3")
def test_without_the_library_there_is_one_error_that_says_what_to_install(tmp_path: Path) -> None:
    error = S3Storage(ObjectStorage(bucket="dumps", prefix="a"), tmp_path / "work").refusal()
    assert error is not None
    assert (error.name, error.retryable) == ("object-storage-library", False)
    assert "s3://dumps/a" in error.message
    assert "dm-replicator[s3]" in error.workaround
