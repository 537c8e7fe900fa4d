"""One run of SCons in a process that goes on when it has ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import SCons.Script

from pypto_build.rules.machinery.invocation import AtCall
from pypto_build.rules.tool import call_first, finish


def run_scons(words: Sequence[str], at_call: AtCall | None = None) -> int:
    """Run a command line of SCons in this process, which has run none before; the exit status.

    ``at_call`` is called where the tool has been called for one plain replay, before it looks at anything.
    """
    call_first(at_call)
    sys.argv = ["scons", *words]
    sys.orig_argv = [sys.executable, "-m", "SCons", *words]
    status = 0
    try:
        SCons.Script.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    finish()
    return status
