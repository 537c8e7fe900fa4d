"""Hazards: what a replay of the checked build did to memory, against what the orchestration declared and ordered."""
