"""Runs the tests of one file for the rule ``PyTest``: ``python -m pypto_build.interop.pytest_file FILE JUNIT ARGS...``.

It prints pytest's output, and then a line with the counts. It is forked from a process that has imported pytest, and
numpy and PyTorch where they are installed. It imports no other module of this package, since each test would then
depend on that module.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

for _slow in ("numpy", "torch"):
    with suppress(ImportError):
        import_module(_slow)

_COUNTED = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
# The process has imported some plugins already; a project may turn each warning into an error.
_IMPORTED = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
_ALONE = ("-p", "no:cacheprovider", "--color=no", "-W", _IMPORTED)
_ONE_PROCESS = ("-n", "0")  # overrides the project's own options


class _OneFile:
    """Collects the tests of one file, and takes counts and reasons of skipped tests from pytest's own report."""

    def __init__(self, file: Path) -> None:
        self._paths = {file, *file.parents}
        self.report: dict[str, Any] = {"seconds": 0.0, "counts": {}, "reasons": []}

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Ignore files beside the test file before pytest reads them, since the test would depend on them."""
        return None if collection_path in self._paths else True

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Record counts and skip reasons, and the durations of tests and fixtures."""
        stats = terminalreporter.stats
        reports = [report for kind in (*_COUNTED, "") for report in stats.get(kind, ())]
        self.report["seconds"] = sum(getattr(report, "duration", 0.0) for report in reports)
        self.report["counts"] = {kind: len(stats[kind]) for kind in _COUNTED if stats.get(kind)}
        skipped = [report.longrepr for report in stats.get("skipped", ())]
        reasons = [str(one[2] if isinstance(one, tuple) else one).removeprefix("Skipped: ") for one in skipped]
        self.report["reasons"] = list(dict.fromkeys(reasons))


def main(argv: Sequence[str]) -> int:
    """Run the tests and return pytest's exit status; 0 if no test of the file is selected."""
    file, junit, *args = argv
    Path(file).read_bytes()  # records the file as an input, although pytest may read a compiled copy
    sys.path.insert(0, os.getcwd())  # as `python -m pytest` does
    one = _OneFile(Path(file))
    base = os.path.join(tempfile.gettempdir(), "t")  # short, for the sockets of tests
    alone = (*_ALONE, f"--basetemp={base}", *(_ONE_PROCESS if find_spec("xdist") else ()))
    status = int(pytest.main([*alone, *args, f"--junitxml={junit}", file], plugins=[one]))
    print(f"\n{json.dumps(one.report)}", flush=True)
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
