"""Parses the ``NAME=value`` options of a command line by their table (`facts/options.py`)."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pypto_build.facts.options import OPTIONS
from pypto_build.facts.run_options import LARGEST, RUN_OPTIONS, ValueKind
from pypto_build.terminal import escaped


class OptionError(Exception):
    """An option that does not exist, or an invalid value. ``str()`` is one line."""


_SWITCHED = {word: on for on, words in ((True, "1 yes true on"), (False, "0 no false off")) for word in words.split()}
_SWITCHED[""] = False


@dataclass(frozen=True)
class Options:
    """The parsed options of this invocation."""

    values: Mapping[str, Any] = field(default_factory=dict)
    requested: str = ""  # the platform asked for, where another one is meant on this machine

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def of_the_run(self) -> dict[str, Any]:
        """Return the options for the replay tool."""
        passed_on = {name for name, option in RUN_OPTIONS.items() if option.flag and option.configures}
        return {name: self.values[name] for name in OPTIONS if name in passed_on}

    @property
    def build_output(self) -> str:
        """Return the directory that is searched first for artifacts and that ``compile`` writes to."""
        return self["BUILD_OUTPUT"] or os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output"


def parse_options(arguments: Mapping[str, str]) -> Options:
    """Check ``arguments`` against the table.

    Raises:
        OptionError: a name that is no option (with the nearest one), or a value it does not take.
    """
    values = {option.name: option.default for option in OPTIONS.values()}
    for name, text in arguments.items():
        option, shown = OPTIONS.get(name), escaped(f"{name}={text}").replace("\n", r"\n")
        if option is None:
            near = difflib.get_close_matches(name.upper(), OPTIONS, n=1, cutoff=0.6)
            way_out = f"did you mean {near[0]}=?" if near else "'scons' alone lists the options"
            raise OptionError(f"{shown}: no such option; {way_out}")
        if "," in text and not text.strip(" ,"):
            raise OptionError(f"{shown}: contains no name; separate names by commas, or leave the option out")
        if (value := _parse(option.kind, text)) is None:
            raise OptionError(f"{shown}: is not {option.kind.what}; {name}: {option.doc.removeprefix('1: ')}")
        values[name] = value
    return Options(values)


def _parse(kind: ValueKind, text: str) -> bool | int | float | str | None:
    """Return the value of a text; None if it has none."""
    if kind.type is bool:
        return _SWITCHED.get(text.lower())
    if kind.quoted:
        try:
            shlex.split(text)
        except ValueError:
            return None
    if kind.type is str:
        return text if text in (kind.choices or (text,)) else None
    if kind.max is not None and text not in map(str, range(kind.max + 1)):
        return None
    try:
        number = int(text) if kind.type is int else float(text)
    except ValueError:
        return None
    highest = LARGEST if kind.type is int else sys.float_info.max
    return number if (-highest if kind.min is None else kind.min) <= number <= highest else None
