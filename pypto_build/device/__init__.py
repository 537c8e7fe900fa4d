"""Check a kernel's C++ against the device's demands without a run: the rules of `pto/ops/device.py` on the
operands of its instructions, flags and slots of pipes that are taken as often as they are given."""
