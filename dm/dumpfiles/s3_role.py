"""The role that `role-arn` of a place in object storage names, and its keys.

The place's own keys, or those that boto3 finds, ask for the role's. These end after an hour. botocore asks for new ones
a quarter of an hour before that, and requests go on with the old ones meanwhile. An `endpoint` is asked for roles as
well, as TiDB does it: other stores than Amazon's answer to both at one address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dm.config.object_storage import ObjectStorage

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
