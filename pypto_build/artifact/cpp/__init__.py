"""Reads orchestration C++: a walk over the syntax tree that keeps track of what each value may be."""
