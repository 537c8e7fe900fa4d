"""What a run left behind, read and given names: dumps, task graph, timeline, and all of it together."""
