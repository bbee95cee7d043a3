"""The client of a place in object storage, and what its answers mean.

boto3 is an extra of the package (`dm-replicator[s3]`) and is imported only where a task names such a place. A client
belongs to a process; workers make their own.

The role that `role-arn` of a place in object storage names, and its keys.

The place's own keys, or those that boto3 finds, ask for the role's. These end after an hour. botocore asks for new ones
a quarter of an hour before that, and requests go on with the old ones meanwhile. An `endpoint` is asked for roles as
well, as TiDB does it: other stores than Amazon's answer to both at one address.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

from dm.config.object_storage import ObjectStorage
from dm.config.secret import MASK
from dm.errors import DMError

_ATTEMPTS: Final = 5
_SECONDS: Final = 60  # a request waits for an answer
_CONNECTIONS: Final = 32
_MISSING: Final = ("404", "NoSuchKey", "NotFound")
# What may go well when it is tried again: NoSuchUpload also answers a request that was repeated since its answer was
# lost, and a conflict is with another writer, who may die before it is done.
_AGAIN: Final = ("SlowDown", "RequestTimeout", "NoSuchUpload", "ConditionalRequestConflict", "OperationAborted")
_NO_KEYS: Final = ("NoCredentialsError", "PartialCredentialsError", "NoRegionError")
EXISTS: Final = ("412", "PreconditionFailed")
"""What a store says where a name is taken that must be free."""


@lru_cache(maxsize=8)
def client_of(place: ObjectStorage) -> Any:
    """The process's client; DMError where boto3 is not installed."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise DMError("object-storage-library", place=place.address, cause=str(error)) from error
    addressing = "path" if place.force_path_style else "virtual"
    s3 = {"addressing_style": addressing, "use_accelerate_endpoint": place.use_accelerate_endpoint}
    config = Config(
        retries={"mode": "standard", "max_attempts": _ATTEMPTS},
        read_timeout=_SECONDS,
        max_pool_connections=_CONNECTIONS,
        s3=s3,
        # Other stores than Amazon's know no checksum that was invented later than they were.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    if place.role_arn:
        session, keys = boto3.Session(botocore_session=session_in_role(place, config)), {}
    else:
        session, keys = boto3.Session(), _keys(place)
    return session.client(
        "s3",
        endpoint_url=place.endpoint or None,
        region_name=place.region or ("us-east-1" if place.endpoint else None),
        config=config,
        **keys,
    )


def _keys(place: ObjectStorage) -> dict[str, str | None]:
    keys = {
        "aws_access_key_id": place.access_key,
        "aws_secret_access_key": place.secret_access_key,
        "aws_session_token": place.session_token,
    }
    return {name: key.get_secret_value() or None for name, key in keys.items()}


def code_of(error: Exception) -> str:
    """The store's word for what is wrong; empty where none of its answers came."""
    answer = getattr(error, "response", None)
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""


@contextmanager
def answers(place: ObjectStorage, name: str = "") -> Iterator[None]:
    """Say in our words what the store refuses; FileNotFoundError where the named object is not there."""
    client_of(place)  # says so where there is no library
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        if name and code_of(error) in _MISSING:
            raise FileNotFoundError(name) from None
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        busy = (status >= 500 and code_of(error) != "NotImplemented") or status == 429 or code_of(error) in _AGAIN
        raise _told("object-storage-unreachable" if busy else "object-storage-refused", place, error) from None
    except (BotoCoreError, HTTPError, ConnectionError, TimeoutError) as error:
        no_keys = type(error).__name__ in _NO_KEYS
        raise _told("object-storage-refused" if no_keys else "object-storage-unreachable", place, error) from None


def _told(kind: str, place: ObjectStorage, error: Exception) -> DMError:
    text = str(error)
    for key in (place.secret_access_key, place.session_token, place.access_key):
        if key.get_secret_value():
            text = text.replace(key.get_secret_value(), MASK)
    return DMError(kind, place=place.address, cause=text)


_REGION: Final = "us-east-1"  # as in TiDB
_NAME: Final = "dm"  # of the role's sessions, in logs of the store


def session_in_role(place: ObjectStorage, config: Any) -> Any:
    """A session of botocore whose clients have the role's keys; they are asked for with the first request."""
    from botocore.credentials import CredentialResolver
    from botocore.session import get_session

    session = get_session()
    session.register_component("credential_provider", CredentialResolver([_Role(place, config)]))
    return session


@dataclass(frozen=True, slots=True)
class _Role:
    """A provider of keys, as botocore knows them."""

    place: ObjectStorage
    config: Any
    METHOD: ClassVar = "assume-role"

    def load(self) -> Any:
        """Keys that renew themselves; None where there are no keys to ask with."""
        from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
        from botocore.session import get_session

        session, place = get_session(), self.place
        if place.access_key.get_secret_value():
            keys = (place.access_key, place.secret_access_key, place.session_token)
            session.set_credentials(*(key.get_secret_value() or None for key in keys))
        own = session.get_credentials()
        if own is None:
            return None

        def client(service: str, **keys: Any) -> Any:
            region = place.region or session.get_config_variable("region") or _REGION
            places = {"region_name": region, "endpoint_url": place.endpoint or None}
            return session.create_client(service, config=self.config, **places, **keys)

        wanted = {"RoleSessionName": _NAME} | ({"ExternalId": place.external_id} if place.external_id else {})
        fetcher = AssumeRoleCredentialFetcher(client, own, place.role_arn, extra_args=wanted)
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)
