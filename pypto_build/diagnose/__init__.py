"""Instruments: read, relate and describe the records of a run. Each tool has its own command line."""
