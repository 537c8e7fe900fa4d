"""Lint: faults of an artifact that can be found without running it."""
