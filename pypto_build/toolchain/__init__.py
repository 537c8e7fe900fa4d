"""Platform to compiler command lines."""

from pypto_build.toolchain.errors import ToolchainError
from pypto_build.toolchain.platforms import PLATFORMS, Platform

__all__ = ["PLATFORMS", "Platform", "ToolchainError"]
