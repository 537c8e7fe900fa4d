"""`scons triage` on a distributed artifact: the instruments for several ranks in turn, up to the first certain cause.

python -m pypto_build.diagnose.ranks.triage ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH --chip NAME=DIR …
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

from pypto_build.diagnose.console import command
from pypto_build.diagnose.ranks.chips import engine_of
from pypto_build.diagnose.ranks.lint import lint_ranks
from pypto_build.diagnose.ranks.run import add_chip_options
from pypto_build.diagnose.triage.__main__ import Triage, run_triage
from pypto_build.diagnose.triage.__main__ import parser as parser_of_one
from pypto_build.replay import Request


class RanksTriage(Triage):
    """The instruments on a distributed artifact."""

    modules = {  # noqa: RUF012 - a table
        "hazards": "pypto_build.diagnose.hazards.ranks",
        "flaky": "pypto_build.diagnose.ranks.flaky",
        "diverge": "pypto_build.diagnose.ranks.diverge",
    }

    def lint(self) -> None:
        """Takes what lint finds."""
        self.take("lint", lint_ranks(self.given.artifact, self.given.platform))

    def request(self) -> Request:
        """A run like that of the verdict, with results of its own."""
        kernels = self.given.kernels
        return replace(super().request(), engine=engine_of(self.given, kernels.name if kernels else ""))

    def of_the_run(self) -> Iterator[str]:
        """The flags that every instrument with a run of its own takes."""
        yield from super().of_the_run()
        for word in self.given.chip:
            yield from ("--chip", word)
        if self.given.world:
            yield from ("--world", str(self.given.world))
        if self.given.devices:
            yield from ("--devices", self.given.devices)


@command("triage", parser_of_one, add_chip_options)  # --world is one of the options of the run
def main(given: argparse.Namespace) -> int:
    """1 where a cause is found, else the exit status of the replay."""
    return run_triage(given, RanksTriage)


if __name__ == "__main__":
    sys.exit(main())
