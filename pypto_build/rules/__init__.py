"""One build rule a file; the only package that imports SCons.

In an SConstruct::

    from pypto_build.rules import pypto
    env = Environment(tools=[pypto])
    env.ReplayTest(name="softmax", artifact="build_output/_jit_softmax", platform="a2a3sim", rtol=1e-3, atol=1e-3)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pypto_build.facts.machine import unsupported
from pypto_build.startup import begin

if TYPE_CHECKING:
    from pypto_build.rules.machinery.scons_types import Environment


def generate(env: Environment) -> None:
    """Set up a SCons environment."""
    begin()
    if reason := unsupported():
        print(reason, file=sys.stderr)
        sys.exit(2)
    try:
        if "pypto_build.rules.tool" not in sys.modules:
            from pypto_build.rules.handing import hand_over

            hand_over()
        from pypto_build.rules import tool  # the tables of this package are read without SCons too
    except KeyboardInterrupt:  # SCons would say where
        sys.excepthook(*sys.exc_info())

    tool.generate(env)


def exists(env: Environment) -> bool:
    """Return True: SCons asks whether the tool can be used."""
    return True


pypto = generate

__all__ = ["exists", "generate", "pypto"]
