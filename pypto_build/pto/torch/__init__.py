"""Translates .pto to readable, executable PyTorch, the expected result of every kernel. Generation needs no torch."""

from __future__ import annotations

from .module import Generated, UnsupportedOperations, generate, torch_codegen

__all__ = ["Generated", "UnsupportedOperations", "generate", "torch_codegen"]
