"""A run that comes to rest, and a task whose source rests."""
