"""Tools beside the units: comparison, validation, flashback, replay, change feed, lake."""
