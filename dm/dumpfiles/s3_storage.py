"""A dump in object storage. No store renames, but a request that makes an object makes it whole.

What differs from a directory:

- a chunk goes to the store while it is read from the source (`s3_object`); nothing is staged here but its last part;
- a plan is replaced by one request, as safe as a rename;
- a removal begins with the mark and then removes the plan: a process that dies in between leaves both, and the plan
  counts. So the removal is asked for again, by whoever asked for it, and nothing is lost meanwhile;
- what killed writers have sent and not published is no object, but it is stored and paid for. It is removed when the
  next run begins, when a dump is finished, and with the dump.

Reading and writing one object: ranges of it in any order, and a stream of unknown length into it.

A store takes an object as a whole, or in parts of which nobody sees any before the last request. That one request makes
the file, and it is conditional: where the name is taken, the store refuses it. So what a link does in a directory,
`If-None-Match: *` does here, and no file is staged on this machine: a writer holds one part in memory.

A store that does not know the condition would take it for no condition at all. `S3Storage.prepare` asks before the
first chunk is written.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from dm.config.object_storage import ObjectStorage
from dm.dumpfiles.s3_client import EXISTS, answers, client_of, code_of
from dm.dumpfiles.storage import LocalStorage
from dm.errors import DMError

_AT_ONCE: Final = 16  # requests about small objects
_AHEAD: Final = 1 << 20  # bytes that a reader asks for, at least


@dataclass(frozen=True, slots=True)
class S3Storage:
    """A bucket and a prefix, and a directory of this machine for what is no part of the dump."""

    place: ObjectStorage
    work: Path

    def __str__(self) -> str:
        return self.place.address

    @property
    def everywhere(self) -> bool:
        """Workers of any machine reach the store."""
        return True

    def shown(self, name: str) -> str:
        """The object's address."""
        return f"{self.place.address}/{name}"

    def refusal(self) -> DMError | None:
        """Try what a dump does; what was made to find out is removed again."""
        here = LocalStorage(self.work).refusal()
        if here is not None:
            return here
        try:
            self.names()
            self._demand_conditions()
            self._uploads()
        except DMError as error:
            return error
        return None

    def prepare(self) -> None:
        """Have the directory here, and know that the store takes conditions for what they are."""
        self.work.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._demand_conditions()

    def names(self) -> list[str]:
        """The objects whose names have no further slash."""
        start = self._key("")
        with answers(self.place):
            pages = client_of(self.place).get_paginator("list_objects_v2")
            listed = pages.paginate(Bucket=self.place.bucket, Prefix=start, Delimiter="/")
            return [item["Key"][len(start) :] for page in listed for item in page.get("Contents", ())]

    def size(self, name: str) -> int:
        """Bytes of an object."""
        with answers(self.place, name):
            return int(
                client_of(self.place).head_object(Bucket=self.place.bucket, Key=self._key(name))["ContentLength"]
            )

    def open(self, name: str) -> BinaryIO:
        """The object, read in ranges."""
        return cast("BinaryIO", io.BufferedReader(ObjectReader(self.place, self._key(name), name), _AHEAD))

    def arrow_source(self, name: str) -> BinaryIO:
        """The object."""
        return self.open(name)

    def store(self, contents: Mapping[str, bytes]) -> None:
        """Put objects, several at a time."""
        self._together(lambda name: self._put(name, contents[name]), contents)

    @contextlib.contextmanager
    def create(self, name: str) -> Iterator[ObjectWriter]:
        """Send the object in parts."""
        writer = ObjectWriter(self.place, self._key(name))
        try:
            yield writer
        finally:
            writer.discard()

    def rename(self, name: str, new: str) -> None:
        """Put the content under the new name, then remove the old one."""
        with self.open(name) as file:
            self._put(new, file.read())
        self.remove([name])

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects, several at a time."""
        self._together(self._delete, names)

    def sweep(self) -> None:
        """Have the store forget uploads that nobody will end, and remove reports."""
        for key, upload in self._uploads():
            forget_upload(self.place, key, upload)
        LocalStorage(self.work).sweep()

    def leave(self) -> None:
        """Nothing is left of a place without objects; the directory here goes."""
        self.sweep()
        shutil.rmtree(self.work, ignore_errors=True)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Reports are written here."""
        with LocalStorage(self.work).writing():
            yield

    def _key(self, name: str) -> str:
        return f"{self.place.prefix}/{name}" if self.place.prefix else name

    def _put(self, name: str, data: bytes) -> None:
        options = put_options(self.place)
        with answers(self.place):
            client_of(self.place).put_object(Bucket=self.place.bucket, Key=self._key(name), Body=data, **options)

    def _delete(self, name: str) -> None:
        with answers(self.place):
            client_of(self.place).delete_object(Bucket=self.place.bucket, Key=self._key(name))

    def _uploads(self) -> list[tuple[str, str]]:
        with answers(self.place):
            pages = client_of(self.place).get_paginator("list_multipart_uploads")
            listed = pages.paginate(Bucket=self.place.bucket, Prefix=self._key(""))
            return [(item["Key"], item["UploadId"]) for page in listed for item in page.get("Uploads", ())]

    def _demand_conditions(self) -> None:
        """Raise DMError where the store replaces an object that it is told to leave alone."""
        name = f".{uuid.uuid4().hex}.tmp"
        won = []
        try:
            for _ in range(2):
                with self.create(name) as probe:
                    won.append(probe.publish())
        except DMError as error:
            if "NotImplemented" not in error.cause:
                raise
            won = [True, True]
        finally:
            if won:
                self._delete(name)
        if won != [True, False]:
            raise DMError("object-storage-replaces", place=self.place.address)

    @staticmethod
    def _together(act: Callable[[str], None], names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE, "objects") as pool:
            for _ in pool.map(act, names):
                pass


_FIRST_PART: Final = 1 << 23
_PARTS_OF_A_SIZE: Final = 1000  # of at most 10,000; then twice as large ones, so an object may have its 5 TB
_READ_ATTEMPTS: Final = 3


class ObjectReader(io.RawIOBase):
    """An object as a file that can be read anywhere; it must stay the one that was opened."""

    def __init__(self, place: ObjectStorage, key: str, name: str) -> None:
        self._place = place
        self._key = key
        self._client = client_of(place)
        with answers(place, name):
            found = self._client.head_object(Bucket=place.bucket, Key=key)
        self._size = int(found["ContentLength"])
        self._tag = str(found["ETag"])
        self._at = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read elsewhere next."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the object reaches, by one request."""
        view = memoryview(buffer).cast("B")
        length = min(len(view), self._size - self._at)
        if length <= 0:
            return 0
        data = self._range(self._at, length)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        """The rest; io.RawIOBase would ask for 8 KiB at a time."""
        parts = []
        while part := self.read(_FIRST_PART):
            parts.append(part)
        return b"".join(parts)

    def _range(self, start: int, length: int) -> bytes:
        """The bytes; what comes apart on the way is asked for again."""
        wanted = {"Range": f"bytes={start}-{start + length - 1}", "IfMatch": self._tag}
        for attempt in range(1, _READ_ATTEMPTS + 1):
            try:
                with answers(self._place):
                    answer = self._client.get_object(Bucket=self._place.bucket, Key=self._key, **wanted)
                    data: bytes = answer["Body"].read()
                if len(data) == length:
                    return data
            except DMError as error:
                if not error.retryable or attempt == _READ_ATTEMPTS:
                    raise
        raise DMError("object-storage-unreachable", place=self._place.address, cause="an answer ended early")


class ObjectWriter:
    """An object that is being sent; a small one goes by the one request that makes it."""

    def __init__(self, place: ObjectStorage, key: str) -> None:
        self._place = place
        self._target = {"Bucket": place.bucket, "Key": key}
        self._client = client_of(place)
        self._buffer = bytearray()
        self._upload = ""  # the store's name for what was sent in parts
        self._parts: list[dict[str, object]] = []

    def write(self, data: memoryview) -> int:
        """Append bytes."""
        view = memoryview(data).cast("B")
        self._buffer += view
        while len(self._buffer) > self._part_size:
            self._send(self._part_size)
        return len(view)

    def publish(self) -> bool:
        """Make the object of what was written; False when there is one of the name."""
        try:
            self._make()
        except FileExistsError:
            return False
        return True

    def discard(self) -> None:
        """Have the store forget what was sent and not published."""
        upload, self._upload = self._upload, ""
        if upload:
            forget_upload(self._place, self._target["Key"], upload)

    @property
    def _part_size(self) -> int:
        return _FIRST_PART << (len(self._parts) // _PARTS_OF_A_SIZE)

    def _send(self, size: int) -> None:
        with answers(self._place):
            if not self._upload:
                options = put_options(self._place)
                self._upload = str(self._client.create_multipart_upload(**self._target, **options)["UploadId"])
            number = len(self._parts) + 1
            part = self._buffer[:size]
            sent = self._client.upload_part(**self._target, UploadId=self._upload, PartNumber=number, Body=part)
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})
        del self._buffer[:size]

    def _make(self) -> None:
        if self._upload and self._buffer:
            self._send(len(self._buffer))
        with answers(self._place):
            try:
                if self._upload:
                    parts = {"Parts": self._parts}
                    self._client.complete_multipart_upload(
                        **self._target, UploadId=self._upload, MultipartUpload=parts, IfNoneMatch="*"
                    )
                    self._upload = ""
                else:
                    options = put_options(self._place)
                    self._client.put_object(**self._target, Body=self._buffer, IfNoneMatch="*", **options)
            except Exception as error:
                if code_of(error) in EXISTS:
                    raise FileExistsError(self._target["Key"]) from None
                raise


def forget_upload(place: ObjectStorage, key: str, upload: str) -> None:
    """Have the store drop what was sent; it may be gone already."""
    client = client_of(place)
    with answers(place):
        try:
            client.abort_multipart_upload(Bucket=place.bucket, Key=key, UploadId=upload)
        except client.exceptions.NoSuchUpload:
            return


def put_options(place: ObjectStorage) -> dict[str, str]:
    """What the place says of new objects."""
    options = {
        "StorageClass": place.storage_class,
        "ServerSideEncryption": place.sse,
        "SSEKMSKeyId": place.sse_kms_key_id,
        "ACL": place.acl,
    }
    return {name: text for name, text in options.items() if text}
