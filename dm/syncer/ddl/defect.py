"""An error that nobody foresaw, on the way of a statement: a pause that names the statement, never more than that.

A statement is the one thing in the binlog that anybody may write in a new way. What breaks over it is a defect of ours,
but the task must say which statement it is and where, and the ways out of every other pause must be open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dm.errors import DMError, said
from dm.syncer.apply.lanes import Stopped


@contextmanager
def pausing(statement: str) -> Iterator[None]:
    """Whatever is raised inside, and is no error of the catalogue, becomes one."""
    try:
        yield
    except (DMError, Stopped):
        raise
    except Exception as defect:
        raise DMError("ddl-defect", statement=statement, what=f"{type(defect).__name__}: {said(defect)}") from defect
