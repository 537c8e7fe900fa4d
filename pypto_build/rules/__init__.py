"""One build rule a file; the only package that imports SCons.

In an SConstruct::

    from pypto_build.rules import pypto
    env = Environment(tools=[pypto])
    env.ReplayTest(name="softmax", artifact="build_output/_jit_softmax", platform="a2a3sim", rtol=1e-3, atol=1e-3)
"""

from __future__ import annotations

from pypto_build.rules.tool import exists, generate

pypto = generate

__all__ = ["exists", "generate", "pypto"]
