"""The history of commands on many artifacts as one HTML page."""
