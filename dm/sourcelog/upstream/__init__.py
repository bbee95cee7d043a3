"""The source server: facts, positions, structures and the dump stream."""
