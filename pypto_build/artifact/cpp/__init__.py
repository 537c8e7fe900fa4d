"""Reads orchestration C++: a walk over the syntax tree that tracks the possible values of every variable."""
