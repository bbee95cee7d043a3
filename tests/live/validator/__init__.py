"""The validator against real servers."""
