"""Two installations share a store while their artifacts are edited: ``python -m tests.trust.sharing --edits 500``.

After each edit, the edited installation replays. All its binaries, outputs and verdicts must have the same bytes as in
a workspace without a store.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.trust.space import Space, write_chain
from tests.trust.tested import Tested

#: A first replay builds the runtime; on a machine that does other work that takes minutes.
_LONGEST_S = 1800.0
_COMPARED = ("kernels/aiv/*.o", "kernels/aiv/*.so", "orchestration/*.o", "orchestration/*.so", "actual/*.pt")


def installed(tested: Tested, root: Path, remote: str) -> Tested:
    """A copy of the package in an environment and a home of its own below ``root``, with a store behind its own."""
    package = Path(tested.ask("import pypto_build; print(pypto_build.__path__[0])"))
    (root / "src").mkdir(parents=True)
    shutil.copytree(package, root / "src" / "pypto_build")
    tested.ask(f"import venv; venv.create({str(root / 'venv')!r}, symlinks=True)")
    site = next((root / "venv" / "lib").glob("python*/site-packages"))
    (site / "__editable__.pypto_build-0.1.0.pth").write_text(f"{root / 'src'}\n")
    (site / "rest.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    variables = {"PYPTO_BUILD_REMOTE": remote, "HOME": str(root / "home")}
    return replace(tested, python=root / "venv" / "bin" / "python", variables=variables)


@dataclass
class Tally:
    """Counts of the results of a number of edits."""

    edits: int = 0
    compiled: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    shared: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        verdicts = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.edits} edits, {self.compiled} units compiled, {self.shared['hits']} of {self.shared['asked']} "
            f"results from the other, {verdicts}; {len(self.faults)} faults"
        )


class Sharing:
    """Two workspaces of two installations with a store at ``remote``, and one without; all below ``root``.

    ``options`` are those of every replay.
    """

    def __init__(self, tested: Tested, root: Path, remote: str, seed: int, *options: str) -> None:
        self._options = options
        self._random = random.Random(seed)
        self._alone = write_chain(Space(root / "alone" / "w", tested, tested.new_cache(root / "alone" / "cache")))
        self._spaces = [
            write_chain(
                Space(directory / "w", installed(tested, directory, remote), tested.new_cache(directory / "cache"))
            )
            for directory in (root / "one", root / "in" / "another" / "place")
        ]
        self.tally = Tally()

    def step(self) -> None:
        """One edit in one of them, and what it makes of that."""
        number = self._random.randrange(len(self._spaces))
        space = self._spaces[number]
        self._edit(space)
        replayed = space.replay("STORE_UPLOAD=wait", *self._options, longest_s=_LONGEST_S)
        shutil.rmtree(self._alone.artifact)
        shutil.copytree(space.artifact, self._alone.artifact)
        alone = self._alone.replay("STORE_SIZE=0", *self._options, longest_s=_LONGEST_S)
        tally = self.tally
        tally.edits += 1
        tally.compiled += len(replayed.actions("[cpp->.so] compile"))
        tally.statuses[replayed.outcome.status] += 1
        for line in replayed.actions("[store]"):
            words = line.split()
            tally.shared["hits"] += int(words[3])
            tally.shared["asked"] += int(words[5])
        if replayed.outcome != alone.outcome:
            tally.faults.append(f"edit {tally.edits}: {replayed.outcome} is {alone.outcome} without a store")
        if replayed.outcome.status == "build_error":  # what else was built by then, and what ran before, is left
            return
        tally.faults += [f"edit {tally.edits}: {name} differs" for name in _differing(space.out, self._alone.out)]

    def _edit(self, space: Space) -> None:
        choose = self._random.choice
        match choose(("kernel", "kernel", "header", "orchestration", "data", "nothing")):
            case "kernel":
                name = choose(("twice", "plus_one"))
                expressions = (
                    "2.0f * in[i]",
                    "3.0f * in[i]",
                    "in[i] + 1.0f",
                    "in[i] + FAR",
                    "in[i] - 1.0f  /* less */",
                )
                space.kernel(name, choose(expressions), '#include "far.h"')
                space.write_in("kernels/aiv/far.h", choose(("#define FAR 1.0f\n", "#define FAR 2.0f\n")))
            case "header":
                space.write_in(
                    "kernels/aiv/far.h", choose(("#define FAR 1.0f\n", "#define FAR 4.0f\n", "#define FAR\n"))
                )
            case "orchestration":
                path = space.artifact / "orchestration" / "chain.cpp"
                space.write_in("orchestration/chain.cpp", f"{path.read_text()}// {choose('abc')}\n")
            case "data":
                factor = choose((1.0, 2.0, 3.0))
                space.tensor("in/x.pt", [factor * i for i in range(16)])
                space.tensor("out/y.pt", [2.0 * factor * i + 1.0 for i in range(16)])


def _differing(one: Path, other: Path) -> Iterator[str]:
    names = {
        str(path.relative_to(root)) for root in (one, other) for pattern in _COMPARED for path in root.glob(pattern)
    }
    for name in sorted(names):
        pair = [root / name for root in (one, other)]
        if not all(path.is_file() for path in pair) or pair[0].read_bytes() != pair[1].read_bytes():
            yield name


def main(argv: Sequence[str]) -> int:
    """Command line: the exit status is 1 if there were faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.trust.sharing", description=main.__doc__)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--remote", default="", help="the address of a store (a directory of its own)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="sharing-") as directory:
        root, started = Path(directory), time.monotonic()
        (root / "store").mkdir()
        tested = Tested.prepare(root / "home")
        sharing = Sharing(tested, root / "work", options.remote or str(root / "store"), options.seed)
        shown = 0
        for number in range(options.edits):
            sharing.step()
            for fault in sharing.tally.faults[shown:]:
                print(fault, flush=True)
            shown = len(sharing.tally.faults)
            if number % 25 == 24 or number + 1 == options.edits:
                print(f"{sharing.tally}, {time.monotonic() - started:.0f} s", flush=True)
    return bool(sharing.tally.faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
