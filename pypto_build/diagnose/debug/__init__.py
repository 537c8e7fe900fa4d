"""A debugger on the kernels of one task."""
