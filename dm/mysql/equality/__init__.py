"""What "the same" means, for structures and rows: for diff, demo and tests, in SQL and here."""
