"""The validator: looks at rows that were applied, and tells which are not at the target as the source has them."""
