"""Runs SCons once, in a process that continues after SCons has ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from SCons.Script import Main
from SCons.Util import DisplayEngine

from pypto_build import terminal
from pypto_build.client.protocol import SconsStart
from pypto_build.rules.machinery.invocation import AtCall
from pypto_build.rules.machinery.termination import end_without_a_word
from pypto_build.rules.tool import call_first, finish

_SAID = "scons: Reading SConscript files ..."


class _Display(DisplayEngine):  # type: ignore[misc]  # SCons has no types
    """SCons's display without the lines that the original command has already printed."""

    def __call__(self, text: str, append_newline: int = 1) -> None:
        if text != _SAID:
            super().__call__(text, append_newline)


def run_scons(words: Sequence[str], at_call: AtCall | None = None, start: SconsStart | None = None) -> int:
    """Run a command line of SCons in this process, which has run none before; return the exit status.

    ``at_call`` is called at the call of the tool for one plain replay, before the tool looks at anything. With
    ``start``, the process goes on for an SCons that was started so and has printed all output up to the call.
    """
    call_first(at_call)
    sys.argv = ["scons", *words]
    sys.orig_argv = [sys.executable, "-m", "SCons", *words]
    if start:
        name, sys.orig_argv, sys.path[:], _ = start
        sys.argv[0] = name
        Main.progress_display = _Display()
    status = 0
    try:
        Main.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    end_without_a_word()
    finish()
    terminal.step_aside()
    return status
