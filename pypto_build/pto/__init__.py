"""The .pto language: parse, print, check, assemble to C++, translate to PyTorch."""
