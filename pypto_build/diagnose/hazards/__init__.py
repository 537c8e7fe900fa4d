"""Compare the memory accesses of a checked replay with the declarations and the order of the orchestration."""
