"""The order of rows across sources."""
