"""Changes of a live source, and those of other servers and names."""
