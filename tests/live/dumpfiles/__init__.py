"""Places of dump files, on real servers of object storage."""
