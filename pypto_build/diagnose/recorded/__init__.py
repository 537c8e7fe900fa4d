"""Readers for the records of a run, with names: dumps, task graph, timeline, and all of it together."""
