"""Compares what a task migrates, at its sources and at its target."""
