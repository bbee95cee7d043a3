"""The relay unit: pulls the binlog of one source into local files."""
