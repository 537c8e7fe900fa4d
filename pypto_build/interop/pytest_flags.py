"""The pytest plugin's flags, and their values, whichever plugin declared them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pypto_build.artifact.scene_reader import mentions_simpler
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import OF_ITS_RECORDS

#: Flags that select tests and settings: names, and arguments for argparse.
FLAGS: dict[tuple[str, ...], dict[str, Any]] = {
    ("--platform",): {"action": "append", "metavar": "P", "help": "a2a3sim, a5sim, a2a3 or a5; -p P says the same"},
    ("--device",): {"metavar": "LIST", "help": 'devices of hardware: "0", "4-7" or "0,2,5" (0)'},
    ("--case",): {"action": "append", "metavar": "C", "help": "only this case: Name, Class::Name, Class:: or ::Name"},
    ("--rounds",): {"metavar": "N", "help": "how often to run each case (1)"},
    ("--manual",): {"choices": ("exclude", "include", "only"), "help": "scene tests' cases that run when asked for"},
    ("--skip-golden",): {"action": "store_true", "help": "run scene tests without comparing"},
    ("--golden-data",): {"metavar": "DIR", "help": "another directory with in/ and out/ than the artifact's"},
    ("--pack",): {
        "choices": ("onfail",),
        "help": "a manifest's replay that fails leaves its pack, named in the report",
    },
    ("--sanitizer",): {"metavar": "LIST", "help": "as pypto-build replay --sanitizer"},
    ("--enable-swimlane-overhead",): {"action": "store_true", "help": "has no effect"},
    ("--runtime",): {"metavar": "R", "help": "what executes a manifest's replay: embedded, torch or simpler"},
}
# The number of files in directories that are searched for scene tests.
_MOST_LOOKED_AT = 500
# Options of a run whose flags are passed on unchanged, those with levels first.
PASSED_ON = sorted((row for row in OF_ITS_RECORDS.values() if row.scene_flags), key=lambda row: row.kind.type is bool)


def about_artifacts(words: Sequence[str], collected: Sequence[str]) -> bool:
    """Return whether a command line has one of the flags (or asks for help), and files that the plugin collects.

    ``collected`` are the names of those files, with that of scene tests last.
    """
    flags = {name for names in (*FLAGS, *(option.scene_flags for option in PASSED_ON)) for name in names}
    if not any(word.partition("=")[0] in {*flags, "-h", "--help"} for word in words):
        return False
    places = [Path(word.partition("::")[0]) for word in words if not word.startswith("-")]
    if any(root.name in collected or mentions_simpler(root) for root in places):
        return True
    depths = [f"{'*/' * depth}{collected[-1]}" for depth in range(4)]
    directories = [root for root in places if root.is_dir()] or [Path()]
    if any(next(root.glob(depth), None) for root in directories for depth in depths):
        return True
    tests = (path for root in directories for depth in range(8) for path in root.glob(f"{'*/' * depth}test_*.py"))
    return any(map(mentions_simpler, islice(tests, _MOST_LOOKED_AT)))


def declare(parser: pytest.Parser) -> None:
    """Declare the flags, except those that another plugin has already declared."""
    group = parser.getgroup("pypto", "artifacts")
    rows = dict(FLAGS)
    for option in PASSED_ON:
        taken: dict[str, Any] = {"action": "store_true"}
        if option.bare is not None:
            taken = {"nargs": "?", "const": str(option.bare), "metavar": "LEVEL"}
        rows[option.scene_flags] = {**taken, "help": option.doc.removeprefix("1: ")}
    for names, about in rows.items():
        with suppress(ValueError, argparse.ArgumentError):
            group.addoption(*names, dest=kept(names[0]), **about)


def named_platforms(config: pytest.Config) -> list[str]:
    """Return the platforms of the command line, which may come from ``-p``. Raises a usage error for an unknown one."""
    named = [name for name in config.getoption("plugins", default=[]) or [] if name in PLATFORMS]
    ours = config.getoption(kept("--platform"), default=None) is not None
    named += [name for name in listed(config, "--platform") if ours or name in PLATFORMS]  # a flag of others, else
    for name in named:
        if name not in PLATFORMS:
            raise pytest.UsageError(f"--platform {name}: unknown platform; one of {', '.join(PLATFORMS)}")
    return list(dict.fromkeys(named))


def kept(flag: str) -> str:
    """Return the name under which the value of a flag is stored."""
    return f"pypto_{flag.lstrip('-').replace('-', '_')}"


def flag_value(config: pytest.Config, flag: str) -> Any:
    """Return the value of a flag, whichever plugin declared it; None if it is not set."""
    value = config.getoption(kept(flag), default=None)
    return value if value is not None else config.getoption(flag.lstrip("-").replace("-", "_"), default=None)


def listed(config: pytest.Config, flag: str) -> list[str]:
    """Return the values of a flag that may be repeated."""
    value = flag_value(config, flag)
    return list(value) if isinstance(value, list) else [value] if value else []
