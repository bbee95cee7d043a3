"""How fast a task may be."""
