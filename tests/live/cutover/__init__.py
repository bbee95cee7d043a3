"""The cut-over at real servers."""
