"""dm: DM-style migration and replication of MySQL and MariaDB databases, with Spark for the full load."""
