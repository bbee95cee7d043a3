"""What happened, and how lag and rates went: kept across restarts, in bounded space."""
