"""DDL text."""
