"""`scons flaky` on a distributed artifact: seeded schedules of all ranks, and which outputs depend on them.

python -m pypto_build.diagnose.ranks.flaky ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH --chip NAME=DIR …

In each run tasks of a rank run in a random legal order, and ranks are held back at random where kernels begin, notify
and go on after a wait.
"""

from __future__ import annotations

import argparse
import sys

from pypto_build.diagnose.console import command, progress
from pypto_build.diagnose.findings import Finding, deliver
from pypto_build.diagnose.flaky.__main__ import Failed, Outputs, Runner, varying
from pypto_build.diagnose.flaky.__main__ import parser as parser_of_one
from pypto_build.diagnose.ranks.chips import add_world_options, engine_of
from pypto_build.diagnose.ranks.run import add_chip_options

_HINT = "scons hazards names accesses that no notify and wait order; SHUFFLE=1 SEED={seed} replays this schedule's seed"


@command("flaky", parser_of_one, add_chip_options, add_world_options)
def main(given: argparse.Namespace) -> int:
    """0 where every schedule gives the same outputs, 1 where not, else the exit status of a run that failed."""
    runner = Runner(given, engine_of(given, given.binaries.name if given.binaries else ""))
    try:
        base = runner.run()
    except Failed as failed:
        print(f"flaky: the first run ended: {failed}", file=sys.stderr)
        return failed.verdict.exit_status
    return deliver("flaky", given.artifact, _schedules(runner, base), given, given.build_dir)


def _schedules(runner: Runner, base: Outputs) -> list[Finding]:
    """Run the schedules, up to the first that changes an output or does not come to its end."""
    given = runner.given
    for number in progress(range(given.rounds), "running schedules", given.rounds):
        seed = given.seed + number
        try:
            found = base.varying(runner.run(shuffle=True, seed=seed, memory=given.memory_model))
        except Failed as failed:
            error = failed.verdict.error
            print(f"[flaky] schedule {number} (seed {seed}) of {given.rounds} ended: {failed.verdict.status}")
            message = f"a schedule (SHUFFLE=1 SEED={seed}) ends: {error.message if error else failed.verdict.status}"
            hint = error.hint if error else ""
            return [Finding("flaky/schedule-ends", message, hint=hint)]
        if found:
            print(f"[flaky] schedule {number} (seed {seed}) of {given.rounds} differs, {runner.runs} runs")
            message = f"{varying(found, base)} with the schedule of the ranks (SHUFFLE=1 SEED={seed})"
            return [Finding("flaky/schedule", message, hint=_HINT.format(seed=seed))]
    print(f"[flaky] {given.rounds} schedules of all ranks: the same outputs")
    return []


if __name__ == "__main__":
    sys.exit(main())
