"""From binlog events to whole transactions of the source."""
