"""Configurations of replays: each configuration of an artifact has a directory of results in ``OUT/replays``.

So switching between data sets, tolerances or records repeats no run, and several runs go side by side.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_build.facts.options import OPTIONS
from pypto_build.facts.platforms import Platform
from pypto_build.rules.variants import VARIANTS

#: Configurations that are kept besides those of declared tests: their outputs take space.
KEPT = 8
_OF_A_TEST = ".test"
_NAME_LENGTH = 80
_COMPARATOR = "comparator "


@dataclass(frozen=True)
class Configuration:
    """One way to replay an artifact: the options that differ from their defaults, as ``NAME=value``."""

    pairs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(self.pairs)

    @property
    def comparators(self) -> tuple[str, ...]:
        """Return the comparators; tools other than the replay compare within tolerances."""
        return tuple(pair.partition("=")[2] for pair in self.pairs if pair.startswith(_COMPARATOR))

    @property
    def name(self) -> str:
        """Return the name of its directory: readable, and different for each configuration."""
        if not self.pairs:
            return "default"
        digest = hashlib.sha256(json.dumps(self.pairs).encode()).hexdigest()[:8]
        return f"{re.sub(r'[^A-Za-z0-9._=+,-]', '_', ','.join(self.pairs))[:_NAME_LENGTH]}-{digest}"


def configuration(
    platform: Platform,
    options: Mapping[str, Any],
    data: str,
    variant: str,
    comparators: Mapping[str, str],
    environment: Mapping[str, str],
) -> Configuration:
    """Return the configuration of a replay with these options of the run, data and binaries."""
    values = {"DATA": data} if data else {}
    values |= {"CHECK": "1"} if VARIANTS[variant].checked else {}
    for name, value in options.items():
        if value != OPTIONS[name].default and (platform.simulated or name != "RUNTIME"):  # hardware has one runtime
            values[name] = "1" if value is True else str(value)
    values |= {f"{_COMPARATOR}{output}": comparator for output, comparator in comparators.items()}
    return Configuration(tuple(f"{name}={value}" for name, value in (values | dict(environment)).items()))


def evict(results: Path, used: Set[Path]) -> None:
    """Remove the least recently used results beside ``results`` before its first run, except those ``used`` now."""
    if any(results.iterdir()):
        return
    others = [path for path in results.parent.iterdir() if path.is_dir() and not path.is_symlink() and path not in used]
    others = [path for path in others if not (path / _OF_A_TEST).exists()]
    others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in others[KEPT - 1 :]:
        shutil.rmtree(path)


def note_use(results: Path, of_a_test: bool) -> None:
    """Record that ``results`` are used now; results ``of_a_test`` are never evicted."""
    os.utime(results)
    if of_a_test and not os.path.lexists(results / _OF_A_TEST):  # a link there is not followed
        (results / _OF_A_TEST).touch()
