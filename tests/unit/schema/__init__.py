"""Table structures."""
