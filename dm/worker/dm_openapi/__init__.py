"""DM's OpenAPI under `/api/v1`: DM's paths and shapes, the work of our verbs.

Clients of DM find what `dm/openapi/spec/dm.yaml` of pingcap/tiflow (release 8.5) says. No request does a verb's work
itself: it becomes calls of the verbs of `/api/v2`.

The two differ in what a stopped task is. In DM a task is created, then started and stopped as often as one likes, and
is there until it is deleted. Here `start-task` makes a task known, `pause-task` lets it rest, `stop-task` forgets it.
So `start` is `start-task` or `resume-task`, `stop` is `pause-task`, `delete` is `stop-task --remove-meta`. A task that
was created and never started is kept as its file (`Registry.prepared_tasks`).
"""
