"""Loads the code that every command needs, and turns a fork of this process into a command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from pypto_build.cli import Scons
from pypto_build.toolchain.forks import outlive_readers, status_of, take_streams

# Modules that most commands need; the rest is loaded on demand.
_LOADED = (
    "pypto_build.cli",
    "pypto_build.device.kernel",
    "pypto_build.diagnose.pack.opened",
    "pypto_build.proof.output_dir",
    "pypto_build.rules.instances",
    "pypto_build.rules.machinery.help",
    "pypto_build.rules.pto_targets",
    "pypto_build.rules.replay_test",
    "pypto_build.rules.run",
    "pypto_build.rules.splice",
    "pypto_build.rules.tool",
    "pypto_build.rules.verb_targets",
)


def load() -> list[str]:
    """Import the code that commands need; return the files that were loaded.

    No import may read the environment or the working directory.
    """
    for module in _LOADED:
        import_module(module)
    from pypto_build import cli
    from pypto_build.device.kernel import preload_rules
    from pypto_build.rules.machinery.runtime_module import preload
    from pypto_build.rules.replay import preload_verdicts

    cli.parser()
    preload_verdicts()
    preload_rules()
    sources = map(str, preload())
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return sorted({sys.executable, *sources, *filter(None, modules)})


def take_over(streams: Sequence[int], environment: Mapping[str, str], directory: str) -> None:
    """Use the streams, environment and working directory of a command; the own streams are closed before."""
    take_streams(streams)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.stdin = _stream(0, "r", sys.stdin)
    sys.stdout = _stream(1, "w", sys.stdout)
    sys.stderr = _stream(2, "w", sys.stderr, always_by_line=True)
    outlive_readers()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _stream(descriptor: int, mode: str, template: Any, always_by_line: bool = False) -> Any:
    """Return a standard stream as Python opens it at its start."""
    by_line = always_by_line or os.isatty(descriptor)
    encoding, errors = template.encoding, template.errors
    return os.fdopen(descriptor, mode, 1 if by_line else -1, encoding=encoding, errors=errors, closefd=False)


def run_command(words: Sequence[str], scons: Scons) -> int:
    """Run a command line in this process, including exit handlers; return the exit status."""
    from pypto_build import cli

    return status_of(lambda: cli.main(words, scons))
