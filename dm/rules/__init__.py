"""Which tables, events and rows are wanted, and where they go."""
