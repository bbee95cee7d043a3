"""The load unit: dump files to target, through Spark."""
