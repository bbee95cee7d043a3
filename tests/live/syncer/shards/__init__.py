"""Shards that routes merge, in both modes."""
