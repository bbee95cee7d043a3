"""Rules against servers."""
