"""Find the first task whose output differs from the PyTorch reference."""
