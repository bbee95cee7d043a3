"""Where a run begins: at what it finds at the target, and at which server."""
