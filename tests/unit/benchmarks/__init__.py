"""The measuring programs, as far as no server is needed."""
