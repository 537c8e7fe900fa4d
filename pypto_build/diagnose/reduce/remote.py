"""Candidates on a farm: each is built and run by a worker, which says how it ended.

python -m pypto_build.diagnose.reduce.remote ROOT --scratch DIR

is what the worker runs. ROOT has what the session sent; what is compiled stays in DIR for the candidates that follow,
and the ending is written to the file `ending` in the working directory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_bytes, write_bytes
from pypto_build.diagnose.reduce.build import Builder
from pypto_build.diagnose.reduce.case import Candidate, Case, candidate_of
from pypto_build.diagnose.reduce.judge import Judge, RunLimits, Target, write_case
from pypto_build.facts.jobs import FarmJob, FarmResult
from pypto_build.farm.session import FarmSession

_SENT, _ENDING, _ARTIFACT, _EMBEDDED = "candidate.msgpack", "ending", "artifact", "embedded"
_MODULE = "pypto_build.diagnose.reduce.remote"


class Settings(msgspec.Struct, frozen=True):
    """The options of `Builder`: how candidates are compiled."""

    platform: str
    kernel_flags: str
    cxx: str
    arch: str
    numerics: str
    jobs: int = 1


class Sent(msgspec.Struct, frozen=True):
    """A request to a worker: a candidate, the options to compile it, and the ending that is kept."""

    candidate: Candidate
    settings: Settings
    runtime: str
    target: Target
    limits: RunLimits


class FarmJudge(Judge):
    """A judge that runs candidates on a farm. The outputs of the last candidate are computed locally."""

    def __init__(self, judge: Judge, session: FarmSession, options: argparse.Namespace, runtime: str) -> None:
        super().__init__(judge.builder, judge.embedded, judge.scratch, judge.target, judge.limits)
        self._session, self._runtime = session, runtime
        self._settings = Settings(options.platform, options.kernel_flags, options.cxx, options.arch, options.numerics)

    def prefetch(self, cases: Sequence[Case]) -> dict[str, str]:
        """The endings, by digest, up to the first that is kept."""
        directory = self.scratch / "sent"
        shutil.rmtree(directory, ignore_errors=True)
        jobs = [self._sent(case, directory / str(number)) for number, case in enumerate(cases)]
        endings: dict[str, str] = {}
        results = self._session.results(jobs)
        for result in results:
            endings[cases[int(result.label)].digest] = _ending(result)
            in_order = [endings.get(case.digest) for case in cases]
            before = in_order[: in_order.index(None)] if None in in_order else in_order
            if any(ending is not None and self.target.holds(ending) for ending in before):
                results.close()
                break
        return endings

    def ending(self, case: Case) -> str:
        """Return how one case ends."""
        return self.prefetch([case])[case.digest]

    def _sent(self, case: Case, root: Path) -> FarmJob:
        sent = Sent(candidate_of(case), self._settings, self._runtime, self.target, self.limits)
        write_bytes(root / _SENT, msgspec.msgpack.encode(sent))
        (root / _EMBEDDED).mkdir()
        (root / _EMBEDDED / self.embedded.name).symlink_to(self.embedded.resolve())
        if not self.target.twofold:
            write_case(case, root / _ARTIFACT, [])
        return FarmJob(root.name, str(root), module=_MODULE, returns=(_ENDING,))


def _ending(result: FarmResult) -> str:
    if _ENDING in result.files:
        return result.files[_ENDING].decode()
    lines = [line for line in result.log.splitlines() if line.strip()]
    last_line = lines[-1] if lines else f"ended with status {result.status}"
    raise ArtifactError("SCHEDULER=", f"a worker of the farm could not test a candidate: {last_line}")


def main(argv: Sequence[str] | None = None) -> int:
    """Judge one candidate on a worker of the farm."""
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description="how a candidate ends")
    parser.add_argument("root", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    options = parser.parse_args(argv)
    try:
        sent = msgspec.msgpack.decode(read_bytes(options.root / _SENT), type=Sent)
        (embedded,) = (options.root / _EMBEDDED).iterdir()
    except (OSError, ValueError) as error:  # msgspec's are ValueErrors
        print(f"reduce: {options.root}: is not a valid candidate: {error}", file=sys.stderr)
        return 2
    builder = Builder(
        options.scratch / "built", argparse.Namespace(**msgspec.structs.asdict(sent.settings)), sent.runtime
    )
    judge = Judge(builder, embedded, Path.cwd() / "judging", sent.target, sent.limits)
    write_bytes(Path(_ENDING), judge.ending_of(sent.candidate, options.root / _ARTIFACT).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
