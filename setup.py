"""Builds the embedded runtime with the package, where there is a compiler; else the first replay does.

Everything else about the package stands in pyproject.toml.
"""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

_HERE = Path(__file__).resolve().parent
# Only this process knows where an isolated build has its packages.
_SHIP = """import runpy, sys
sys.argv[1:], sys.path[:] = sys.argv[1:2], [place for place in sys.argv[2:] if place]
runpy.run_module("pypto_build.rules.ship", run_name="__main__")"""


class BuildWithRuntime(build_py):
    """Puts ``pypto_build/shipped``, a store of results, beside the modules."""

    def run(self) -> None:
        if not self.editable_mode:  # what another revision left there would be installed, too
            shutil.rmtree(Path(self.build_lib, "pypto_build"), ignore_errors=True)
        super().run()
        made = _HERE / "pypto_build" / "shipped"  # beside the sources too: scons in a clone uses those
        command = [sys.executable, "-c", _SHIP, str(made), str(_HERE), *sys.path]
        if subprocess.run(command, check=False).returncode:
            print("pypto-build: the runtime is not built; the first replay will do it", file=sys.stderr)
        elif not self.editable_mode:
            shutil.copytree(made, Path(self.build_lib, "pypto_build", "shipped"), dirs_exist_ok=True)


class WithRuntime(Distribution):
    """A wheel holds a library for this kind of machine and this Python."""

    def has_ext_modules(self) -> bool:
        return True


# Before pip downloads or compiles anything for such a machine, but setuptools.
reason = runpy.run_path(str(_HERE / "pypto_build" / "facts" / "machine.py"))["unsupported"]()
if reason:
    sys.exit(reason)
setup(
    distclass=WithRuntime,
    cmdclass={"build_py": BuildWithRuntime},
    setup_requires=["scons>=4.10", "pybind11>=2.12", "msgspec>=0.18"],  # what building the runtime imports
)
