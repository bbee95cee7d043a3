"""Progress of tables that are loaded beside a running stream."""
