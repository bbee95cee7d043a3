"""Everything that a DDL statement goes through."""
