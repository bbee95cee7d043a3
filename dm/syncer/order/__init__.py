"""The order of transactions across the sources of a task."""
