"""Stand-in for PyPTO: `jit` compiles a function y = 2x + 1 of two vectors, whose run is done in Python."""
