"""Show the dump of a run's arguments."""
