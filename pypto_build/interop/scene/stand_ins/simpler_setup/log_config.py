"""Stands in for simpler's logging."""


def configure_logging(level: str = "timing") -> None:
    """The level of a run's log is an option of the run."""
