"""The embedded runtime: headers that generated C++ includes, the scheduler, the pybind11 binding."""
