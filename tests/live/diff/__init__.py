"""Live tests of dm.tools.diff, without Spark."""
