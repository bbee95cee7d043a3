"""Live tests of the change feed, without Spark."""
