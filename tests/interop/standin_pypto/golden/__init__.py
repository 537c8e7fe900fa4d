"""Stand-in for pypto-lib's harness."""

from .runner import run_jit  # noqa: F401
