"""What pytest finds when it is asked for a plugin called like a platform: `pytest kernel_config.py -p a2a3`.

``-p`` names plugins in pytest, and is simpler's flag for the platform. pytest looks for an entry point of that name
before it would import a module, so each platform has one; the plugin itself reads which were named.
"""

from __future__ import annotations

from types import SimpleNamespace

from pypto_build.facts.platforms import PLATFORMS

A2A3, A5, A2A3SIM, A5SIM = (SimpleNamespace(__name__=name) for name in PLATFORMS)
