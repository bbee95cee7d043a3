"""What must hold end to end: outages, kills of the daemon, secrets."""
