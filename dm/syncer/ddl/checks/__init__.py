"""Refusals: what a DDL statement would do to the target that it did not do to the source."""
