"""Live tests of dm.diff, without Spark."""
