"""How fast a task may be: what all its processes share of it, and what of the servers it depends on."""
