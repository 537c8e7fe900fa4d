"""Platform to compiler command lines."""

from pypto_build.toolchain.errors import ToolchainError

__all__ = ["ToolchainError"]
