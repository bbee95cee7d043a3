"""Row changes: their keys, their conversion to the target table, and the SQL they become."""
