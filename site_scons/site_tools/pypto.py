"""The SCons tool ``pypto``: registers the rules of pypto_build."""

from pypto_build.rules import exists, generate

__all__ = ["exists", "generate"]
