"""From .pto to readable, executable PyTorch: what every kernel should have computed. Generation needs no torch."""

from __future__ import annotations

from .module import Generated, UnsupportedOperations, generate, torch_codegen

__all__ = ["Generated", "UnsupportedOperations", "generate", "torch_codegen"]
