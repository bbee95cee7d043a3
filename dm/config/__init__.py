"""Source and task files: models with DM's keys, strict, all problems at once."""

from dm.config.endpoint import Endpoint, Security
from dm.config.load import load_source, load_task, read_source, read_task
from dm.config.problem import ConfigErrors, Problem, TextPlace
from dm.config.references import StartPoint
from dm.config.secret import referenced_variables
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.config.task import TaskConfig, resolve

__all__ = [
    "ConfigErrors",
    "Endpoint",
    "Problem",
    "Security",
    "SourceConfig",
    "StartPoint",
    "SubtaskConfig",
    "TaskConfig",
    "TextPlace",
    "load_source",
    "load_task",
    "read_source",
    "read_task",
    "referenced_variables",
    "resolve",
]
