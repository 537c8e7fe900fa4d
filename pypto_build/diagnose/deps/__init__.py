"""The task graph of a run in words, columns and the formats of other tools."""
