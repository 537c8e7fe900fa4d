"""Checks a kernel's C++ against the rules of the device without a run.

They cover the rules of `pto/ops/device.py` on operands of instructions, the balance of flags, and the balance of pipe
slots.
"""
