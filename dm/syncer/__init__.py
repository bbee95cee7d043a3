"""The sync unit: binlog to target."""
