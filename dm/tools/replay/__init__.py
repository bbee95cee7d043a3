"""`dmctl replay`: a backlog of a paused task, applied by Spark's tasks in a few large steps."""
