"""Source and task files: models with DM's keys, strict, all problems at once."""
