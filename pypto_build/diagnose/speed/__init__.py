"""Predict the time of a run on a device from the instructions that its kernels execute here."""
