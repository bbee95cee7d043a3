"""DDL of the source at the target."""
