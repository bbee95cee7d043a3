"""XA transactions of the source."""
