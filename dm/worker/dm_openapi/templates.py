"""DM's OpenAPI: templates, which are tasks that are kept and never run."""

from __future__ import annotations

from collections.abc import Mapping

from dm.errors import DMError
from dm.verbs.declaration import CHANGES, READS, Verb
from dm.worker.dm_openapi.operation import OpenAPIRequests, operation
from dm.worker.dm_openapi.source_file import with_secrets
from dm.worker.dm_openapi.task_file import invalid, normal, task_as_file
from dm.worker.dm_openapi.task_shapes import DMTask, FailedTemplate, TaskList, TemplateImport, TemplateImportRequest
from dm.worker.dm_openapi.tasks import TaskRequests, without_secrets
from dm.worker.verb_work import Means, Work


class TemplateRequests(OpenAPIRequests):
    """Templates. Their sources need not be known."""

    tag = "task"

    def __init__(self, means: Means, work: Mapping[type[Verb], Work], tasks: TaskRequests) -> None:
        super().__init__(means, work)
        self._tasks = tasks

    @operation("POST tasks/templates", CHANGES, DMTask, status=201)
    def create_task_template(self, body: DMTask) -> DMTask:
        """Keep a task as a template."""
        if body.name in self._registry.templates():
            raise DMError("template-exists", template=body.name)
        return self._keep(body)

    @operation("GET tasks/templates", READS, TaskList)
    def get_task_template_list(self) -> TaskList:
        """List the templates."""
        data = [
            without_secrets(DMTask.model_validate_json(text)) for _, text in sorted(self._registry.templates().items())
        ]
        return TaskList(total=len(data), data=data)

    @operation("GET tasks/templates/{task_name}", READS, DMTask)
    def get_task_template(self, task_name: str) -> DMTask:
        """Show a template."""
        return without_secrets(self._template(task_name))

    @operation("PUT tasks/templates/{task_name}", CHANGES, DMTask)
    def update_task_template(self, task_name: str, body: DMTask) -> DMTask:
        """Replace a template."""
        if body.name != task_name:
            raise invalid(f"the path names template {task_name}, the body {body.name}", "give one name")
        target = with_secrets(body.target_config, self._template(task_name).target_config)
        return self._keep(body.model_copy(update={"target_config": target}))

    @operation("DELETE tasks/templates/{task_name}", CHANGES, status=204)
    def delete_task_template(self, task_name: str) -> None:
        """Forget a template."""
        self._template(task_name)
        self._registry.put_template(task_name, None)

    @operation("POST tasks/templates/import", CHANGES, TemplateImport, status=202)
    def import_task_template(self, body: TemplateImportRequest) -> TemplateImport:
        """Keep all tasks as templates."""
        done, failed = list[str](), list[FailedTemplate]()
        for name, task in self._tasks.all_told():
            if isinstance(task, DMError):
                failed.append(FailedTemplate(task_name=name, error_msg=str(task)))
            elif name in self._registry.templates() and not body.overwrite:
                failed.append(FailedTemplate(task_name=name, error_msg=str(DMError("template-exists", template=name))))
            else:
                self._registry.put_template(name, _stored(task))
                done.append(name)
        return TemplateImport(success_task_list=done, failed_task_list=failed)

    def _keep(self, task: DMTask) -> DMTask:
        """Keep one that can be a task file; raises DMError."""
        kept = normal(task)
        self._read.task(self._file(f"template {task.name}", task_as_file(kept)), None)
        self._registry.put_template(task.name, _stored(kept))
        return without_secrets(kept)

    def _template(self, name: str) -> DMTask:
        text = self._registry.templates().get(name)
        if text is None:
            raise DMError("template-unknown", template=name)
        return DMTask.model_validate_json(text)


def _stored(task: DMTask) -> str:
    return task.model_dump_json(by_alias=True, exclude_none=True)
