"""Some tasks of a run as an artifact of their own, with the arguments they had as its data."""
