"""Lint: what can be told wrong about an artifact without running it."""
