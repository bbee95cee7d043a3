"""`dmctl heal`: a task that has lost its place goes on, with only those rows written that differ."""
