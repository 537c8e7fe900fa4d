"""What a device demands of a kernel's C++, found without a run: the rules of `pto/ops/device.py` on the operands of its
instructions, flags and slots of pipes that are taken as often as they are given."""
