"""Stands in for the functions that make arguments from torch tensors."""

from pypto_build.interop.scene.worker import make_tensor_arg

__all__ = ["make_tensor_arg"]
