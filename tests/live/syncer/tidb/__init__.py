"""A TiDB as the target."""
