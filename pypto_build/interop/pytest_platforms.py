"""Entry points for pytest plugins that are named like platforms, as in `pytest kernel_config.py -p a2a3`.

In pytest ``-p`` selects plugins, in simpler it selects the platform. Before importing a module of that name, pytest
looks for an entry point, so each platform has one. The real plugin reads the names from the command line.
"""

from __future__ import annotations

from types import SimpleNamespace

from pypto_build.facts.platforms import PLATFORMS

A2A3, A5, A2A3SIM, A5SIM = (SimpleNamespace(__name__=name) for name in PLATFORMS)
