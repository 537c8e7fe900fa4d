"""The run's options on a command line and as settings of the runtime; both follow from one table."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from pypto_build.facts.run_options import LOG_LEVELS, RUN_OPTIONS, RunOption, ValueKind

#: A value of a setting; names are those of the runtime's settings.
SettingValue = bool | int | str | list[str] | list[int] | Callable[[Any], object]

# The dump level for selected arguments or tasks, if no level is set: all directions.
_SELECTED_DUMP = 2


def add_run_options(parser: argparse.ArgumentParser, takes: Callable[[RunOption], bool]) -> None:
    """Add the flags of the options that a tool ``takes``; parsed values have the flags' names."""
    for option in RUN_OPTIONS.values():
        if not option.flag or not takes(option):
            continue
        text = "; ".join(filter(None, (option.doc.removeprefix("1: "), option.more)))
        if option.kind.type is bool:
            parser.add_argument(option.flag, action="store_true", help=text)
        elif option.kind.listed:
            parser.add_argument(option.flag, action="append", metavar="NAME", help=text)
        else:
            default = None if option.default == "" else option.default
            parser.add_argument(option.flag, default=default, metavar="VALUE", help=text, **_conversion(option))


def _conversion(option: RunOption) -> dict[str, Any]:
    """Return the argparse arguments that convert and check a value."""
    if option.name == "LOG_LEVEL":
        return {"type": _log_level}
    if option.kind.choices:
        return {"choices": tuple(filter(None, option.kind.choices))}
    return {} if option.kind.type is str else {"type": number(option.kind)}


def number(kind: ValueKind) -> Callable[[str], float]:
    """Return a function that reads a number of this kind, for argparse."""
    low, high = kind.min, kind.max

    def parse(text: str) -> float:
        value = int(text) if kind.type is int else float(text)
        if (low is not None and not value >= low) or (high is not None and value > high) or value == math.inf:
            raise ValueError
        return value

    parse.__name__ = f"level (0 to {high})" if high is not None else f"number (at least {low:g})"
    return parse


def _log_level(text: str) -> int:
    try:
        return LOG_LEVELS[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(LOG_LEVELS)}") from None


def settings_of(options: argparse.Namespace) -> dict[str, SettingValue]:
    """Return the runtime's settings from a parsed command line, without those at their defaults."""
    settings: dict[str, SettingValue] = {}
    for option in RUN_OPTIONS.values():
        value = getattr(options, option.flag.lstrip("-").replace("-", "_"), None)
        if option.setting is None or value in (None, False, 0):
            continue
        if option.kind.listed:
            settings[option.setting.name] = [item for text in value for item in text.split(",") if item]
            settings.setdefault("dump_args", _SELECTED_DUMP)
        else:
            settings[option.setting.name] = option.sets if value is True else value
    return settings
