"""Explain a hang or a fault from simpler's logs, or from the flight recorder of the last run here."""
