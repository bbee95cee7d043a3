"""What a new user is told of the mistakes that everybody makes, word by word."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dm.config import Problem
from tests.unit.config.texts import SOURCE, TASK, source_problems, task_problems

SHARDS = "routes:\n  shards: {schema-pattern: a, target-schema: b}\n"
MISTAKES: dict[str, tuple[Callable[[str | bytes], tuple[Problem, ...]], str | bytes, str]] = {
    "a variable that is not set": (
        source_problems,
        SOURCE.replace("secret", "${DM_SOURCE_PASSWORD}"),
        "source.yaml:6:13: from.password: environment variable DM_SOURCE_PASSWORD is not set; export it, or use"
        " `password-file` [20915]",
    ),
    "a typo in a source file": (
        source_problems,
        SOURCE + "enable-gtd: true\n",
        "source.yaml:7:1: enable-gtd: unknown key `enable-gtd`; did you mean `enable-gtid`? [20003]",
    ),
    "a typo in a task file": (
        task_problems,
        TASK + "    block-alow-list: shop\n",
        "task.yaml:10:5: mysql-instances[0].block-alow-list: unknown key `block-alow-list`; did you mean"
        " `block-allow-list`? [20003]",
    ),
    "a typo in a key that must be there": (
        task_problems,
        TASK.replace("source-id: mysql-01", "sourc-id: mysql-01"),
        "task.yaml:9:5: mysql-instances[0].sourc-id: unknown key `sourc-id`; did you mean `source-id`? [20003]",
    ),
    "a typo in the key of the target": (
        task_problems,
        TASK.replace("target-database", "target-databse"),
        "task.yaml:3:1: target-databse: unknown key `target-databse`; did you mean `target-database`? [20003]",
    ),
    "a source that is not there": (
        task_problems,
        TASK.replace("source-id: mysql-01", "source-id: mysql-1"),
        "task.yaml:9:16: mysql-instances[0].source-id: there is no source 'mysql-1'; expected one of `mysql-01`; did"
        " you mean `mysql-01`? [20031]",
    ),
    "a route that is not there": (
        task_problems,
        f"{TASK}    route-rules: [shard]\n{SHARDS}",
        "task.yaml:10:19: mysql-instances[0].route-rules[0]: there is no route 'shard'; did you mean `shards`? [20023]"
        "\ntask.yaml:12:3: routes.shards: route 'shards' is defined but no instance of `mysql-instances` names it; name"
        " it in `route-rules`, or remove it [20038]",
    ),
    "a task file for a source": (
        source_problems,
        TASK,
        "source.yaml:1:1: this is a task file; expected a source file; task files are for `dmctl check-task` and `dmctl"
        " start-task` [20960]",
    ),
    "a source file for a task": (
        task_problems,
        SOURCE,
        "task.yaml:1:1: this is a source file; expected a task file; source files are for `dmctl operate-source create`"
        " [20960]",
    ),
    "a file that is no text": (
        task_problems,
        b"\x7fELF\x00\xff",
        "task.yaml:1:1: not a text file: byte 5 is not UTF-8; expected a YAML file in UTF-8 [20902]",
    ),
    "an empty file": (task_problems, "", "task.yaml:1:1: not YAML: the file is empty [20903]"),
    "a password as DM prints it": (
        task_problems,
        TASK.replace("secret", "'******'"),
        "task.yaml:7:13: target-database.password: this is the mask that DM prints in place of a secret; expected the"
        " secret itself; a password also from a variable of the environment or by `password-file` [20942]",
    ),
    "a shard mode, and something else besides": (
        task_problems,
        TASK + "    syncer: {worker-count: x}\nstrict-optimistic-shard-mode: true\n",
        "task.yaml:10:28: mysql-instances[0].syncer.worker-count: value 'x' is not possible here; expected a whole"
        " number from 1 to 1024 [20912]\n"
        "task.yaml:11:31: strict-optimistic-shard-mode: `strict-optimistic-shard-mode` needs `shard-mode: optimistic`"
        " [20066]",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_said(mistake: str) -> None:
    problems, text, said = MISTAKES[mistake]
    assert "\n".join(map(str, problems(text))) == said
