"""Exit statuses of `dmctl`; `wait` has one more (dm/cli/wait.py), `diff` its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dm.cli.client import RequestRefused
from dm.errors import DMError

OK: Final = 0
FAILED: Final = 1
BAD_USAGE: Final = 2  # or a bad configuration
PRECHECK_FAILED: Final = 3


class EndedWithError(Exception):
    """An error of a verb that has an exit status of its own for errors."""

    def __init__(self, error: RequestRefused | DMError, status: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.status = status


@contextmanager
def errors_end_with(status: int) -> Iterator[None]:
    """Have every error within end `dmctl` with this status."""
    try:
        yield
    except (RequestRefused, DMError) as error:
        raise EndedWithError(error, status) from error
