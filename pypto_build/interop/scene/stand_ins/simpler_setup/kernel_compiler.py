"""Stands in for simpler's compiler of kernels."""

from pypto_build.interop.scene.worker import KernelCompiler

__all__ = ["KernelCompiler"]
