"""Exit statuses of `dmctl`; `wait` has one more (dm/cli/wait.py), `diff` its own (dm/cli/diff.py)."""

from typing import Final

OK: Final = 0
FAILED: Final = 1
BAD_USAGE: Final = 2  # or a bad configuration
PRECHECK_FAILED: Final = 3
