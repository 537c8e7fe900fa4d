"""Detects Ascend hardware, or the toolkit that builds for it, on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Set by the toolkit's and the driver's set_env.sh, and by who hands devices to a container.
_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES")
# Device nodes of the driver.
_NODES = ("davinci*", "devmm_svm", "hisi_hdc")


def sign_of_hardware(environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> str:
    """Return the name of a variable or device node that shows a toolkit or a device; empty if there is none."""
    for name in _VARIABLES:
        if name in environment:
            return name
    return next((str(node) for pattern in _NODES for node in sorted(devices.glob(pattern))), "")
