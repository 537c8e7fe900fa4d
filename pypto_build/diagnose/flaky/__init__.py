"""Find the outputs of a run that depend on the order of its tasks."""
