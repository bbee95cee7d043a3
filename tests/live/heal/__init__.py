"""Heals of tasks whose progress and rows no longer belong together, between real servers."""
