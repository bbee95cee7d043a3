"""The relay against real servers."""
