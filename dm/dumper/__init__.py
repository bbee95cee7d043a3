"""The dump unit: source to dump files, through Spark."""
