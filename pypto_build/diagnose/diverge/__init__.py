"""The first task whose output leaves the PyTorch reference."""
