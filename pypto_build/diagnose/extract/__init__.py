"""Extract tasks of a run into an artifact of their own, whose data are the tasks' arguments."""
