"""Bazel-like build rules, a CPU runtime and debugging instruments for PyPTO artifacts."""

__version__ = "0.1.0"
