"""The verb that collects what a stranger needs to understand this daemon."""

from __future__ import annotations

from typing import Annotated, Final

from dm.verbs.declaration import ASKED, OPERATES, Verb, option, shape

BUNDLE: Final = shape("SupportBundle", file=str, content=str, problems=list[str])


class SupportBundle(
    Verb, name="support-bundle", route="POST support-bundle", permission=OPERATES, answer=BUNDLE, division=ASKED
):
    """Write a tar.gz for support. It has status, settings, logs and structures, no secrets and no values of rows."""

    file: Annotated[
        str, option("--file -o", "the file to write, which must not be there [dm-support-<time>.tar.gz]", sent=False)
    ] = ""
