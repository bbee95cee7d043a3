"""The life of a subtask: stages, units, auto-resume, prechecks."""
