"""Binlog bytes to events and rows; pure, no I/O."""
