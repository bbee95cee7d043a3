"""SQL that takes back the row changes of a stretch of the relay; nothing here executes it."""
