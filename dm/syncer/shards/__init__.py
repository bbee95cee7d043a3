"""Shards that are held at a DDL and read again, around a run."""
