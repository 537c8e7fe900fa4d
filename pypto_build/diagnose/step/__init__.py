"""One kernel run of one task, instruction by instruction, forward and back, beside its PyTorch values."""
