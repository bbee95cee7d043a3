"""Source and task files."""
