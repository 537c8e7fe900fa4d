"""The pytest plugin's flags, and their values, wherever in the command line or by whomever they were declared."""

from __future__ import annotations

from typing import Any

import pytest

#: Flags that choose what runs, and how: names, what argparse is told.
FLAGS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--platform",), {"action": "append", "metavar": "P", "help": "a2a3sim, a5sim, a2a3 or a5; -p P says the same"}),
    (("--device",), {"metavar": "LIST", "help": 'devices of hardware: "0", "4-7" or "0,2,5" (0)'}),
    (("--case",), {"action": "append", "metavar": "C", "help": "only this case: Name, Class::Name, Class:: or ::Name"}),
    (("--rounds",), {"metavar": "N", "help": "how often to run each case (1)"}),
    (("--golden-data",), {"metavar": "DIR", "help": "another directory with in/ and out/ than the artifact's"}),
    (("--runtime",), {"metavar": "R", "help": "what executes a manifest's replay: embedded, torch or simpler"}),
)
#: Flags that a run is given as they are: names, the newest first, what a bare one means (None: a switch), help.
PASSED_ON: tuple[tuple[tuple[str, ...], str | None, str], ...] = (
    (("--dump-args", "--dump-tensor"), "1", "dump arguments"),
    (("--enable-chip-swimlane", "--enable-l2-swimlane"), "4", "write the timeline"),
    (("--enable-pmu",), "2", "count hardware events"),
    (("--enable-dep-gen",), None, "write the task graph"),
)

#: The platforms that a command line names.
NAMED = pytest.StashKey[list[str]]()


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
