"""A cut-over: applications move from the sources of a task to its target."""
