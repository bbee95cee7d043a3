"""Table structures and how DDL changes them; pure, no I/O."""
