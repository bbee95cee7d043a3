"""A place in object storage, as DM's files write it: `s3://bucket/prefix?endpoint=..&access-key=..&..`.

The form and the names are those of TiDB's external storage (https://docs.pingcap.com/tidb/stable/external-storage-uri);
`_` in a name is as good as `-`, and a `+` is itself, since keys of S3 hold it. Whoever names no keys means those of
the environment of the daemon, as in DM. A key may be `${VARIABLE}`.

The keys part from the text when the file is read: `dir` keeps bucket and prefix, which is what messages show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr, SerializationInfo, field_serializer

from dm.config.document import Scalar
from dm.config.problem import did_you_mean, one_of_text
from dm.config.secret import MASK, referenced_variables
from dm.config.section import LoadContext

SCHEME: Final = "s3://"

_SECRETS: Final = ("access-key", "secret-access-key", "session-token")
_TEXTS: Final = ("endpoint", "region", "storage-class", "sse", "sse-kms-key-id", "acl", "role-arn", "external-id")
_FLAGS: Final = ("force-path-style", "use-accelerate-endpoint")
_WITHOUT_EFFECT: Final = ("provider",)  # what it stands for in DM is said by `endpoint` and `force-path-style`
_KNOWN: Final = (*_SECRETS, *_TEXTS, *_FLAGS, *_WITHOUT_EFFECT)
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_ROLE: Final = re.compile(r"arn:\S{16,2044}")
_EXTERNAL_ID: Final = re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII)
_WORDS: Final = re.compile(r"[a-z]+(?:-[a-z]+)*")
_PARAMETER: Final = re.compile(r"(?<=[?&])([^=&]*)=([^&]*)")


class ObjectStorage(BaseModel):
    """Bucket, prefix, and how to get there."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    bucket: str
    prefix: str = ""  # without a slash at either end
    endpoint: str = ""
    region: str = ""
    force_path_style: bool = True
    use_accelerate_endpoint: bool = False
    storage_class: str = ""
    sse: str = ""
    sse_kms_key_id: str = ""
    acl: str = ""
    role_arn: str = ""  # of the role that is assumed with the keys
    external_id: str = ""
    access_key: SecretStr = SecretStr("")
    secret_access_key: SecretStr = SecretStr("")
    session_token: SecretStr = SecretStr("")

    @property
    def address(self) -> str:
        """The place without its keys."""
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def within(self, name: str) -> ObjectStorage:
        """A place in this one; the place itself where its last part has the name already, as in DM."""
        if self.prefix == name or self.prefix.endswith(f"/{name}"):
            return self
        return self.model_copy(update={"prefix": f"{self.prefix}/{name}".lstrip("/")})

    @field_serializer("access_key", "secret_access_key", "session_token")
    def _masked(self, value: SecretStr, info: SerializationInfo) -> str:
        reveal = isinstance(info.context, dict) and info.context.get("reveal") is True
        return value.get_secret_value() if reveal else MASK


def is_object_storage(text: str) -> bool:
    """Whether a `dir` is a place in object storage."""
    return text[: len(SCHEME)].lower() == SCHEME


def read_object_storage(value: Scalar, context: LoadContext) -> ObjectStorage | None:
    """The place that a `dir` names; None when a problem was recorded, which shows no value."""
    problems: list[tuple[str, str]] = []
    parts = urlsplit(value.text)
    if not _BUCKET.fullmatch(parts.netloc):
        problems.append(("what stands after `s3://` is no name of a bucket", ""))
    if parts.fragment:
        problems.append(("a `#` ends its parameters", "write `%23` where it is part of one"))
    found: dict[str, object] = {}
    for name, text in _parameters(parts.query):
        if name not in _KNOWN:
            hint = did_you_mean(name, _KNOWN) or f"one of {one_of_text(_KNOWN)}"
            shown = f"`{name}`" if _WORDS.fullmatch(name) else "one of its parameters"  # which may be a key by mistake
            problems.append((f"{shown} is not known there", hint))
        elif name in found:
            problems.append((f"it has `{name}` twice", ""))
        elif name in _FLAGS and text.lower() not in ("true", "false"):
            problems.append((f"`{name}` is neither `true` nor `false`", ""))
        elif name in _SECRETS:
            found[name] = _secret(name, text, context, problems)
        else:
            found[name] = text.lower() == "true" if name in _FLAGS else text
    endpoint = str(found.get("endpoint", ""))
    if endpoint and (urlsplit(endpoint).scheme not in ("http", "https") or "@" in endpoint):
        problems.append(("`endpoint` is no address such as `https://host:9000`", ""))
    if bool(found.get("access-key")) != bool(found.get("secret-access-key")):
        problems.append(("`access-key` and `secret-access-key` come together or not at all", ""))
    problems.extend(_of_the_role(str(found.get("role-arn", "")), str(found.get("external-id", ""))))
    for why, suggestion in problems:
        context.report.add("config-object-storage", value.mark, value.path, why=why, suggestion=suggestion)
    if problems:
        return None
    named = {name.replace("-", "_"): content for name, content in found.items() if name not in _WITHOUT_EFFECT}
    return ObjectStorage(bucket=parts.netloc, prefix=unquote(parts.path).strip("/"), **named)  # type: ignore[arg-type]  # checked


def _of_the_role(role: str, external_id: str) -> Iterator[tuple[str, str]]:
    if role and not _ROLE.fullmatch(role):
        yield "`role-arn` is no name of a role", "it is like `arn:aws:iam::123456789012:role/dumps`"
    if external_id and not _EXTERNAL_ID.fullmatch(external_id):
        yield "`external-id` is none that a role can ask for", "2 to 1224 letters, digits or `_+=,.@:/-`"


def without_keys(text: str) -> str:
    """The text of such a `dir`, with the mask in place of its keys; names of variables stay."""

    def shown(found: re.Match[str]) -> str:
        name, content = found[1], unquote(found[2])
        says_nothing = not content or any(content == "${" + each + "}" for each in referenced_variables(content))
        return found[0] if _name(name) not in _SECRETS or says_nothing else f"{name}={quote(MASK, safe='*')}"

    return _PARAMETER.sub(shown, text)


def _name(written: str) -> str:
    return unquote(written).lower().replace("_", "-")


def _parameters(query: str) -> Iterator[tuple[str, str]]:
    for name, text in parse_qsl(query.replace("+", "%2B"), keep_blank_values=True):
        yield _name(name), text


def _secret(name: str, text: str, context: LoadContext, problems: list[tuple[str, str]]) -> SecretStr:
    if text == MASK:
        problems.append((f"`{name}` is the mask that stands in place of a secret", ""))
    for variable in referenced_variables(text):
        if text == "${" + variable + "}":
            if variable not in context.environ:
                problems.append((f"environment variable {variable} is not set", "export it"))
            return SecretStr(context.environ.get(variable, ""))
    return SecretStr(text)
