"""The prechecks: what must hold before a task starts, each finding with the statement that puts it right."""
