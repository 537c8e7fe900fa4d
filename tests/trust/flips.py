"""Damages every file of OUT and of the cache, one at a time: ``python -m tests.trust.flips``.

The workspace has passed and failed before. After the damage, a replay gives the result of a fresh build. It may first
end with one clear line, and give that result the second time. After an edit it gives the result of a fresh build too.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.trust.damage import KINDS, damage, files_of
from tests.trust.space import MISMATCH, PASS, Replayed, Space, contradictions, write_chain
from tests.trust.tested import Tested
from tests.trust.world import said_so

_TEXTS = {PASS: "2.0f * in[i]", MISMATCH: "3.0f * in[i]"}
_LONGEST_S = 30.0  # a replay that has to build everything takes two


@dataclass(frozen=True)
class Flip:
    """One file to damage in one way; the file's path begins with the area that it is in."""

    file: str
    kind: str


class Victim:
    """A workspace with a cache, to be damaged and put back again and again."""

    def __init__(self, tested: Tested, directory: Path, expected: int) -> None:
        self.expected, self.directory = expected, directory
        self.space = write_chain(Space(directory / "now" / "w", tested, directory / "now" / "cache"))
        tested.new_cache(self.space.cache)
        for status in (MISMATCH, PASS, *([MISMATCH] if expected == MISMATCH else [])):
            self._edit(status)
            replayed = self.space.replay()
            assert replayed.outcome.exit == status, replayed.done
        self.outputs = self._outputs()
        (directory / "now").rename(directory / "then")

    def _edit(self, status: int) -> None:
        self.space.kernel("twice", _TEXTS[status])

    def _outputs(self) -> dict[str, bytes]:
        actual = self.space.out / "actual"
        return {path.name: path.read_bytes() for path in sorted(actual.glob("*.pt"))}

    def _put_back(self) -> None:
        """As it was: links between files included, and times."""
        shutil.rmtree(self.directory / "now", ignore_errors=True)
        subprocess.run(["cp", "-a", self.directory / "then", self.directory / "now"], check=True)

    def files(self) -> list[str]:
        """The files that can be damaged: OUT's, and the cache's but for the runtime's module."""
        then = self.directory / "then"
        roots = [then / "w" / "build", then / "cache"]
        return [str(path.relative_to(then)) for root in roots for path in files_of(root, ("runtime",))]

    def fault(self, flip: Flip, edit: bool = True) -> str:
        """Return the fault of the replay after this damage, and after an edit; empty if there is none."""
        self._put_back()
        damage(self.directory / "now" / flip.file, flip.kind)
        first, fault = self._replay()
        if not fault and first.outcome.exit != self.expected and first.outcome.exit > MISMATCH:
            first, fault = self._replay()  # it said clearly what is damaged; not for ever
            if not fault and flip.kind == "directory" and said_so(first):
                return ""  # which may be somebody's: not for a build to remove
        if not fault and first.outcome.exit != self.expected:
            fault = f"status {first.outcome.exit}, not {self.expected}"
        if not fault and self._outputs() not in (self.outputs, {}):
            fault = "the outputs in actual/ are not those of the run"
        if edit and not fault:
            other = MISMATCH if self.expected == PASS else PASS
            self._edit(other)
            first, fault = self._replay()
            if not fault and first.outcome.exit != other:
                fault = f"after an edit: status {first.outcome.exit}, not {other}"
        return f"{flip.kind} of {flip.file}: {fault}\n{first.done}" if fault else ""

    def _replay(self) -> tuple[Replayed, str]:
        done = self.space.run("replay", longest_s=_LONGEST_S)
        replayed = self.space.outcome_of(done)
        return replayed, "; ".join(contradictions(replayed))


def flips(victim: Victim, kinds: Sequence[str], every: int = 1, first: int = 0) -> Iterator[Flip]:
    """The damages to do: each file in each way, or one of so many from the ``first``."""
    all_flips = [Flip(file, kind) for file in victim.files() for kind in kinds]
    yield from all_flips[first::every]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: the exit status is 1 if there were faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.trust.flips", description=main.__doc__)
    parser.add_argument("--python", default="", help="the interpreter of the environment that is tested (this one)")
    parser.add_argument("--every", type=int, default=1, help="only one of so many damages")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only damages of this kind")
    options = parser.parse_args(argv)
    home = Path(tempfile.mkdtemp(prefix="trust-flips-"))
    done, faults, begun = 0, 0, time.monotonic()
    try:
        tested = Tested.prepare(home / "shared", options.python)
        for expected in (PASS, MISMATCH):
            victim = Victim(tested, home / f"expecting-{expected}", expected)
            for flip in flips(victim, options.kind or list(KINDS), options.every):
                fault = victim.fault(flip)
                done += 1
                faults += bool(fault)
                if fault:
                    print(f"\nfault {faults}: {fault}", flush=True)
                if done % 50 == 0:
                    print(f"{done} damages, {faults} faults, {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"{done} damages, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
