"""How deep a JSON document is, for a MariaDB whose JSON_VALID refuses the deep ones.

MySQL stores 100 levels (JSON_DOCUMENT_MAX_DEPTH), MariaDB's functions read 31 (JSON_DEPTH_LIMIT is 32). A JSON column
of a MariaDB has the check `json_valid`, so it refuses a row whose document is deeper.
"""

from __future__ import annotations

import re
from typing import Final

DEEPEST_AT_MARIADB: Final = 31
CHECK_FAILED_AT_MARIADB: Final = 4025  # ER_CONSTRAINT_FAILED
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def depth_of(document: bytes) -> int:
    """The most arrays and objects that are one inside another."""
    deepest = depth = 0
    for code in _STRING.sub(b"", document):
        if code in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif code in b"]}":
            depth -= 1
    return deepest
