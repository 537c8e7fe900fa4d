"""Explains the value of an element: follows its bytes from an output back through the instructions that made them."""
