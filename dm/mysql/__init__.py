"""What servers mean: binlog events, SQL text, table structures, and when two of them are the same; no I/O."""
