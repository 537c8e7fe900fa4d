"""Debug the kernels of one task with gdb, lldb or rr."""
