"""SQL text: tokens, DDL pieces, literals; pure, no I/O."""
