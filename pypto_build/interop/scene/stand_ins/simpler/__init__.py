"""Stands in for simpler."""
