"""Runs scene tests without simpler: executes their files in separate processes, with stand-ins for simpler's
packages."""
