"""Whether a web page of another origin asks.

Such a page can send requests to us, if the browser has a client's certificate even with a permission. Browsers say so
in headers that no page can set: `Sec-Fetch-Site`, in older ones `Origin` alone. A program sends neither. What a person
opens (a link, a bookmark) is shown to the person and to no page.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def other_origin(headers: Mapping[str, str]) -> str | None:
    """The origin of the page that asks, where it is another one than ours."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return None if opened and origin is None else origin or f"another ({site})"
    return origin if origin is not None and urlsplit(origin).netloc != headers.get("host") else None
