"""The environment of the commands of a build."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from pypto_build.toolchain.python import own_environment
from pypto_build.trace import VARIABLE as TRACE

# Variables of the caller's that commands get: enough for compilers and launchers, nothing that varies by chance.
_PASSED_ON = (
    "PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH", "PTOAS_ROOT", "TERM", "COLUMNS",
    "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
)  # fmt: skip
_PASSED_PREFIXES = (
    "CCACHE_", "SCCACHE_", "DISTCC_", "ICECC", "PYPTO_", "PTO2_RING_", "XDG_", "ASCEND_", "SIMPLER_",
)  # fmt: skip
#: Variables for the path and level of a run's log, and for the devices that it may use.
OF_RUNS = ("ASCEND_PROCESS_LOG_PATH", "ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_RT_VISIBLE_DEVICES")


#: Variables that decide how output is shown.
SHOWN = ("TERM", "COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
#: Variables for our tools that execute no Python of the user's.
_OF_TOOLS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "LC_ALL", TRACE, *SHOWN)
# Files and addresses by which processes of ours tell each other of one run.
_OWN = "PYPTO_BUILD_"


def tool_environment(environment: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the environment of a tool of ours: its necessary variables, and those with ``prefixes``."""
    return {name: value for name, value in environment.items() if name in _OF_TOOLS or name.startswith(prefixes)}


def program_environment(environment: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment of a user's program, all of which may affect its output: the passed variables, and
    those that the user declares.
    """
    hidden = ("TMPDIR", *SHOWN)
    own = {name: value for name, value in environment.items() if not name.startswith(_OWN) and name not in hidden}
    return own | {name: os.environ[name] for name in more if name in os.environ}


def passed_environment() -> dict[str, str]:
    """Return the part of the caller's environment that commands get."""
    variables = own_environment()
    passed = {name: variables[name] for name in _PASSED_ON if name in variables}
    passed |= {name: value for name, value in variables.items() if name.startswith(_PASSED_PREFIXES)}
    return passed | {"LC_ALL": "C.UTF-8"}


def search_paths(environment: Mapping[str, str], prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the variables that affect a compiler's output: its library paths, and variables with ``prefixes``.

    PATH acts only through the programs found by it, which count as read by the tool. Variables that control only runs
    on a device are left out.
    """
    return {
        name: value
        for name, value in environment.items()
        if name == "LD_LIBRARY_PATH" or (prefixes and name.startswith(prefixes) and name not in OF_RUNS)
    }
