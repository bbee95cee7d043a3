"""A dump in object storage. No store renames, but a request that makes an object makes it whole.

What differs from a directory:

- a chunk goes to the store while it is read from the source (`s3_object`); nothing is staged here but its last part;
- a plan is replaced by one request, as safe as a rename;
- a removal begins with the mark and then removes the plan: a process that dies in between leaves both, and the plan
  counts. So the removal is asked for again, by whoever asked for it, and nothing is lost meanwhile;
- what killed writers have sent and not published is no object, but it is stored and paid for. It is removed when the
  next run begins, when a dump is finished, and with the dump.
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
from typing import BinaryIO, Final, cast

from dm.config.object_storage import ObjectStorage
from dm.dumpfiles.local_storage import LocalStorage
from dm.dumpfiles.s3_client import answers, client_of
from dm.dumpfiles.s3_object import ObjectReader, ObjectWriter, forget_upload, put_options
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
