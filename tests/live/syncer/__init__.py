"""The sync unit against real servers."""
