"""The prechecks: what must hold before a task starts, each finding with the statement that puts it right."""

from dm.task.precheck.run import prechecks

__all__ = ["prechecks"]
