"""Which outputs of a run depend on the order of its tasks."""
