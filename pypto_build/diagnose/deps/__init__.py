"""Print the task graph of a run, or export it to the formats of other tools."""
