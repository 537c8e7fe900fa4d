"""The pytest plugin's flags, and their values, wherever in the command line or by whomever they were declared."""

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

#: Flags that choose what runs, and how: names, what argparse is told.
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
# Files of directories that are looked at for scene tests.
_MOST_LOOKED_AT = 500
# Options of a run whose flags are passed on as they are, those with levels first.
PASSED_ON = sorted((row for row in OF_ITS_RECORDS.values() if row.scene_flags), key=lambda row: row.kind.type is bool)


def about_artifacts(words: Sequence[str], collected: Sequence[str]) -> bool:
    """Whether a command line has one of the flags (or asks for help), and something for them among its files.

    ``collected`` are the names of the files that the plugin collects, the scene tests' last.
    """
    flags = {name for names in (*FLAGS, *(option.scene_flags for option in PASSED_ON)) for name in names}
    if not any(word.partition("=")[0] in {*flags, "-h", "--help"} for word in words):
        return False
    places = [Path(word.partition("::")[0]) for word in words if not word.startswith("-")]
    if any(place.name in collected or mentions_simpler(place) for place in places):
        return True
    depths = [f"{'*/' * depth}{collected[-1]}" for depth in range(4)]
    directories = [place for place in places if place.is_dir()] or [Path()]
    if any(next(place.glob(depth), None) for place in directories for depth in depths):
        return True
    tests = (path for place in directories for depth in range(8) for path in place.glob(f"{'*/' * depth}test_*.py"))
    return any(map(mentions_simpler, islice(tests, _MOST_LOOKED_AT)))


def declare(parser: pytest.Parser) -> None:
    """Declare the flags; each unless somebody has declared it already."""
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
    """The platforms of the command line, which ``-p`` may have named. Raises a usage error for one there is not."""
    named = [name for name in config.getoption("plugins", default=[]) or [] if name in PLATFORMS]
    ours = config.getoption(kept("--platform"), default=None) is not None
    named += [name for name in listed(config, "--platform") if ours or name in PLATFORMS]  # a flag of others, else
    for name in named:
        if name not in PLATFORMS:
            raise pytest.UsageError(f"--platform {name}: unknown platform; one of {', '.join(PLATFORMS)}")
    return list(dict.fromkeys(named))


def kept(flag: str) -> str:
    """Under what name the value of a flag is kept."""
    return f"pypto_{flag.lstrip('-').replace('-', '_')}"


def given(config: pytest.Config, flag: str) -> Any:
    """The value of a flag, wherever it was declared; None if it was not given."""
    value = config.getoption(kept(flag), default=None)
    return value if value is not None else config.getoption(flag.lstrip("-").replace("-", "_"), default=None)


def listed(config: pytest.Config, flag: str) -> list[str]:
    """The values of a flag that may be repeated."""
    value = given(config, flag)
    return list(value) if isinstance(value, list) else [value] if value else []
