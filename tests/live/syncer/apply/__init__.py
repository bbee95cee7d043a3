"""Rows at the target: how they are found, written and counted."""
