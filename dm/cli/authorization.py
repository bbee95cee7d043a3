"""What `dmctl` brings when it asks through a port: the token of the daemon there, from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dm.errors import DMError
from dm.worker.home import Home


def authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """The header with the token; nothing where this user has none, then the daemon says which one it needs."""
    named = environment.get("DM_TOKEN_FILE")
    path = Path(named) if named else Home.of(environment).token
    try:
        token = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        if named:
            raise DMError("token-unusable", path=path, problem="it is not there") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise DMError("token-unusable", path=path, problem="it can't be read", cause=str(error)) from error
    return {"Authorization": f"Bearer {token}"}
