"""Finds the simpler that a replay uses: the tree of its headers, and the Python that runs it.

``SIMPLER=`` names a checkout, an environment (a directory with ``bin/python``) or a revision. Without it, the
environment variable ``SIMPLER_ROOT`` means the same. Without both, the simpler that this Python imports is used.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.files import read_source
from pypto_build.toolchain import ToolchainError, git, pins
from pypto_build.toolchain.python import python_code
from pypto_build.toolchain.simpler_tree import SimplerTree, open_tree

#: Names the interpreter for a checkout that was installed into one.
PYTHON_VARIABLE = "SIMPLER_PYTHON"

_HOOK = Path(__file__).with_name("simpler_first")
_PROBE = """
import importlib.metadata, importlib.util, json, sys
def place(name):
    spec = importlib.util.find_spec(name)
    return None if spec is None else spec.origin
named = [d for d in importlib.metadata.distributions() if (d.metadata["Name"] or "").lower() == "simpler"]
found = {name: place(name) for name in ("simpler", "simpler_setup", "_task_interface")}
print(json.dumps({**found, "installed": sorted({str(d.locate_file("")) for d in named}), "python": sys.executable}))
"""


@dataclass(frozen=True)
class SimplerHome:
    """A usable simpler: its tree, the interpreter that runs it, and its import paths if it is not installed."""

    tree: SimplerTree
    python: str
    paths: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Return the revisions of simpler and pto-isa, and the interpreter.

        Two replays are interchangeable only if these are equal.
        """
        revisions = [f"{root} {git.revision_of(root)}" for root in (self.tree.root, self.tree.isa)]
        return " ".join([*revisions, self.python])

    def variables(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the environment in which the interpreter imports this simpler and no other."""
        return _first(self.paths, environment)


def find_home(chosen: str, isa: str, environment: Mapping[str, str] = os.environ) -> SimplerHome:
    """Return the simpler that ``SIMPLER=`` and ``PTO_ISA=`` name.

    Raises:
        ToolchainError: there is none, it is not built, or its parts do not belong together.
    """
    variable, chosen = ("SIMPLER", chosen) if chosen else ("SIMPLER_ROOT", environment.get("SIMPLER_ROOT", ""))
    isa_dir = pins.resolve(pins.PTO_ISA, isa) if isa else None
    python: str = sys.executable
    paths: tuple[str, ...] = ()
    if chosen:
        checkout = pins.resolve(pins.SIMPLER, chosen, option=variable)
        if (checkout / "bin" / "python").exists():
            python = str(checkout / "bin" / "python")
        elif not (checkout / "src").is_dir():
            lacks = "no environment (it has no bin/python) and no checkout of simpler (no src)"
            raise ToolchainError(f"{variable}={chosen}: is {lacks}; name one of the two")
        else:
            python = environment.get(PYTHON_VARIABLE) or python
            paths = (str(checkout), str(checkout / "python"))
            if _is_ours(checkout):
                _give_isa(checkout, isa_dir)
                pins.build(pins.SIMPLER, checkout, python, environment)
    facts = _probe(python, _first(paths, environment))
    root = _root(facts, f"{variable}={chosen}" if chosen else "RUNTIME=simpler", python)
    if paths and root.resolve() != checkout.resolve():
        raise ToolchainError(
            f"{variable}={chosen}: {python} imports simpler from {root} instead; name another "
            f"interpreter with {PYTHON_VARIABLE}"
        )
    return SimplerHome(open_tree(root, isa_dir), python, paths)


def _is_ours(checkout: Path) -> bool:
    return checkout.is_relative_to(pins.pins_dir())


def _give_isa(checkout: Path, isa: Path | None) -> None:
    """Put the pto-isa that a checkout names where simpler looks for it, so that simpler fetches none itself."""
    link, revision = checkout / "build" / "pto-isa", pins.pinned_isa(checkout)
    if link.exists():
        return
    if revision and pins.Repository(pins.PTO_ISA).commit(revision):
        isa = pins.resolve(pins.PTO_ISA, revision)
    if isa is None:
        named = f"PATH@{revision}" if revision else "PATH"
        raise ToolchainError(
            f"{checkout}: the pto-isa that it needs is not in the cache; name a clone with PTO_ISA={named}, "
            "or run 'scons fetch'"
        )
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(isa)


def _first(paths: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which ``paths`` precede all installed packages; unchanged without paths."""
    if not paths:
        return dict(environment)
    all_paths = [str(_HOOK), *paths, *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(all_paths), "PYPTO_SIMPLER_FIRST": os.pathsep.join(paths)}


def _probe(python: str, environment: Mapping[str, str]) -> dict[str, object]:
    """Return the paths from which an interpreter would import simpler; it is not imported."""
    try:
        run = subprocess.run(
            python_code(python, _PROBE), env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        facts = json.loads(run.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise ToolchainError(
            f"{python}: does not answer like Python 3; correct SIMPLER= or {PYTHON_VARIABLE}"
        ) from None
    assert isinstance(facts, dict)
    return facts


def _root(facts: Mapping[str, object], what: str, python: str) -> Path:
    """Return the tree of an importable simpler: the checkout, or the assets of an installed package."""
    way_out = "name a checkout, an environment or a revision with SIMPLER="
    package, setup = facts["simpler"], facts["simpler_setup"]
    if not isinstance(package, str) or not isinstance(setup, str):
        missing = "simpler" if not isinstance(package, str) else "simpler_setup"
        raise ToolchainError(f"{what}: {python} has no package '{missing}'; {way_out}")
    package_dir, setup_dir = Path(package).parent, Path(setup).parent
    if setup_dir.parent not in (package_dir.parent, package_dir.parent.parent):
        both = f"simpler from {package_dir} and simpler_setup from {setup_dir}"
        raise ToolchainError(f"{what}: two versions of simpler in one environment, {both}; uninstall one")
    installed = facts["installed"]
    if isinstance(installed, list) and len(installed) > 1:
        raise ToolchainError(
            f"{what}: simpler is installed more than once, in {' and '.join(installed)}; uninstall one"
        )
    if facts["_task_interface"] is None:
        _demand_interface(package_dir, what, python)
    assets = setup_dir / "_assets"
    return assets if (assets / "src").is_dir() else setup_dir.parent


def _demand_interface(package_dir: Path, what: str, python: str) -> None:
    """Check that the package works in pure Python, without its extension module. Raises `ToolchainError`."""
    source = package_dir / "task_interface.py"
    if not source.is_file():
        raise ToolchainError(f"{what}: {package_dir} has no task_interface.py; install simpler into {python}")
    if re.search(r"^\s*(from|import) _task_interface\b", read_source(source), re.MULTILINE):
        built = f"is not built for {python}, which finds no module _task_interface"
        raise ToolchainError(
            f"{what}: {built}; build it, or name the interpreter it is built for with {PYTHON_VARIABLE}="
        )
