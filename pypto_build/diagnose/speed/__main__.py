"""`scons speed`: predict the time of a run on a device, and what bounds it.

python -m pypto_build.diagnose.speed ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH [--binaries DIR]
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from pypto_build import terminal
from pypto_build.diagnose.console import add_chips, add_options_of, add_run_options, command, taking_long, tool_parser
from pypto_build.diagnose.requests import request_of
from pypto_build.replay import replay
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.verdict import PredictedTime, Verdict, write_verdict


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("speed", __doc__)
    add = options.add_argument
    add_run_options(options)
    add_options_of(options, "speed", TIMEOUT=600.0)
    add_chips(options)
    add("--max-time", type=float, metavar="US", help="fail if even the lower end of the range is above")
    add("--findings", type=Path, metavar="FILE", help="also write the findings alone as JSON")
    return options


def recorded_replay(options: argparse.Namespace) -> tuple[Verdict, Path]:
    """Replay the checked binaries and record all instructions. Returns the verdict and the directory of the record."""
    binaries = options.binaries = options.binaries or options.build_dir / "check"
    for name in ("instructions.json", "ranks.json"):
        (binaries / "dfx_outputs" / name).unlink(missing_ok=True)
    switches: dict[str, SettingValue] = {"instructions": True, "judge": False, "poison": False}
    request = replace(request_of(options, binaries), options=switches)
    return replay(request, write=None), binaries / "dfx_outputs"


@command("speed", parser)
def main(options: argparse.Namespace) -> int:
    """Return 0, 1 if a price is missing or the run takes too long, or the status of a replay that left no record."""
    with taking_long("recording the instructions"):
        verdict, directory = recorded_replay(options)
    if options.chip and (directory / "ranks.json").is_file():
        from pypto_build.diagnose.speed.ranks import answer_ranks

        return answer_ranks(options, directory, terminal.say)
    if not (directory / "instructions.json").is_file():
        error = verdict.error
        print(f"speed: {error.message}; {error.hint}" if error else "speed: no record", file=sys.stderr)
        return verdict.exit_status or 5
    from pypto_build.diagnose.speed.answer import answer

    status, prediction = answer(options, directory, terminal.say)
    predicted = PredictedTime(prediction.chip, prediction.time_us, prediction.low_us, prediction.high_us)
    write_verdict(msgspec.structs.replace(verdict, prediction=predicted), options.binaries / "verdict.json")
    return status


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's library starts unused threads on import
    sys.exit(main())
