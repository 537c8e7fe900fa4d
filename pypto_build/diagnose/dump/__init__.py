"""What the dump of a run holds."""
