"""Instruments: what a run left behind, read, related and put into words. Each tool is a command line of its own."""
