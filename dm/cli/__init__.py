"""dmctl and dm-worker on the command line."""
