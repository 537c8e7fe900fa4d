"""Tries Pythons and compilers, each with each: installs from a copy of the clone, then types the steps.

    python -m tests.machines [--python PATH ...] [--compiler NAME ...] [--root DIR] [--whole] [--keep DIR] [--few]
        [--turn N] [--oldest]

Prints a row a cell with the seconds of each step, and a digest of the outputs, which has to be the same in all. Exit
status 1 if a step does not do what it should, or outputs differ. Without options: all of this machine that the matrix
names; `--turn N` takes one cell of those, another one for every number.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.compilers import COMPILERS
from tests.machines.steps import INSTRUCTION, KERNEL, LOOP, WHOLE, Step

CLONE = Path(__file__).resolve().parents[2]
PYTHONS = [f"3.{minor}" for minor in range(10, 15)]
_VERSIONS = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
_WORK = Path("/work-of-machines")  # in a root


@dataclass
class Machine:
    """A root, or this machine where `root` is None; `work` is a directory that its commands see as `inside`."""

    root: Path | None
    work: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def inside(self) -> Path:
        """The path of `work` for a command."""
        return self.work if self.root is None else _WORK

    def run(self, words: Sequence[str], directory: Path) -> tuple[int, str]:
        """Run a command in a directory, as it sees it; its exit status and output."""
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        environment = {**os.environ, "CI": "1", "HOME": str(self.inside / "home"), **self.environment}
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)
        if self.root is not None:
            environment["PATH"] = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
            words = [*self._enter(directory), *words]
        where = directory if self.root is None else None
        output = subprocess.PIPE
        run = subprocess.run(
            words, cwd=where, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True, check=False
        )
        return run.returncode, run.stdout

    def _enter(self, directory: Path) -> list[str]:
        words = ["bwrap", "--bind", str(self.root), "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs", str(_VERSIONS)):
            words += ["--ro-bind-try", path, path]
        return [*words, "--bind", str(self.work), str(_WORK), "--die-with-parent", "--chdir", str(directory), "--"]


def found(name: str, root: Path | None) -> str | None:
    """Return the path of a program of a root, or of this machine; None where there is none."""
    path = "/usr/local/bin:/usr/bin:/bin"
    return shutil.which(name, path=os.pathsep.join(f"{root}{part}" for part in path.split(":")) if root else None)


def pythons(root: Path | None) -> list[str]:
    """Return the interpreters at hand, one of each version of the matrix; those that are missing are named."""
    paths = []
    for version in PYTHONS:
        own = sorted(_VERSIONS.glob(f"{version}.*/bin/python3")) if _VERSIONS.is_dir() else []
        if own or found(f"python{version}", root):
            paths.append(str(own[-1]) if own else f"python{version}")
        else:
            print(f"python {version}: not installed, skipped")
    return paths


def compilers(root: Path | None) -> list[str]:
    """Return the compilers of the matrix that are at hand; those that are missing are named."""
    missing = [name for name in COMPILERS if not found(name, root)]
    if missing:
        print(f"{' '.join(missing)}: not installed, skipped")
    return [name for name in COMPILERS if name not in missing]


def copy_clone(target: Path) -> None:
    """Copy what git knows of, as a fresh clone has it."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=CLONE, capture_output=True, check=True).stdout
    for name in filter(None, os.fsdecode(names).split("\0")):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (CLONE / name).exists():
            shutil.copy2(CLONE / name, path, follow_symlinks=False)


class StepFailed(Exception):
    """A step did not do what it should; the message shows its output."""


def oldest() -> str:
    """Return constraints that admit of each dependency the oldest version that the project allows."""
    text = (CLONE / "pyproject.toml").read_text(encoding="utf-8")
    bounds = re.search(r"^dependencies = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert bounds is not None
    return "\n".join(re.findall(r'"([^"]+)"', bounds[1].replace(">=", "==")))


def install(machine: Machine, python: str, old: bool) -> float:
    """README's first command but for its replay; the seconds that pip takes."""
    clone = machine.inside / "clone"
    if not (machine.work / "clone").exists():
        copy_clone(machine.work / "clone")
    (machine.work / "clone" / "oldest.txt").write_text(oldest(), encoding="utf-8")
    constraints = "oldest.txt" if old else "constraints.txt"
    for words in ([python, "-m", "venv", ".venv"], [".venv/bin/pip", "install", "-q", "-c", constraints, "."]):
        start = time.monotonic()
        status, output = machine.run(words, clone)
        if status:
            raise StepFailed(f"{' '.join(words)}: exit status {status}\n{output}")
    return time.monotonic() - start


def perform(machine: Machine, step: Step, compiler: str, out: str, digest: hashlib._Hash) -> float:
    """Do a step; the seconds it takes. Raises `StepFailed`."""
    clone = machine.work / "clone"
    kernel = clone / KERNEL
    original = (CLONE / KERNEL).read_text(encoding="utf-8")
    assert original.count(INSTRUCTION) == 1
    kernel.write_text(original.replace(INSTRUCTION, step.edit), encoding="utf-8")
    words = [".venv/bin/pypto-build", *step.words.split(), f"CXX={compiler}", f"BUILD_DIR={out}"]
    start = time.monotonic()
    status, output = machine.run(words, machine.inside / "clone")
    took = time.monotonic() - start
    missing = [text for text in step.holds if text not in output]
    if status != step.status or missing:
        what = f"exit status {status}, not {step.status}; missing: {missing}"
        raise StepFailed(f"{step.name}: {' '.join(words)}: {what}\n{output}")
    if step.digests:
        actual = clone / out / "a2a3sim" / step.digests / "actual"
        for path in sorted(actual.glob("*")):
            digest.update(path.name.encode() + path.read_bytes())
    return took


def cell(machine: Machine, python: str, compiler: str, steps: Sequence[Step]) -> tuple[str, str]:
    """The row of one cell, and the digest of its outputs; empty where a step failed."""
    digest = hashlib.sha256()
    seconds: list[str] = []
    out = f"build-{Path(compiler).name}"
    try:
        seconds += (f"{step.name} {perform(machine, step, compiler, out, digest):.1f}" for step in steps)
    except StepFailed as error:
        return f"{python} {compiler}: FAIL  {error}", ""
    return f"{python} {compiler}: ok  {'  '.join(seconds)}  outputs {digest.hexdigest()[:12]}", digest.hexdigest()


def cells(names: Sequence[str], tools: Sequence[str]) -> list[tuple[str, str]]:
    """Return every Python with every compiler; the first of them have each Python and each compiler once at least."""
    count = max(len(names), len(tools))
    order = (
        (names[number % len(names)], tools[(number + shift) % len(tools)])
        for shift in range(count)
        for number in range(count)
    )
    return list(dict.fromkeys(order))


def rows(options: argparse.Namespace, work: Path) -> Iterator[tuple[str, str]]:
    """Yield every cell's row and digest; with `--few` each Python and each compiler is in one cell at least."""
    names, tools = options.python or pythons(options.root), options.compiler or compilers(options.root)
    chosen = cells(names, tools)
    if options.few:
        chosen = chosen[: max(len(names), len(tools))]
    if options.turn is not None:
        chosen = [chosen[options.turn % len(chosen)]]
    machines: dict[str, Machine | None] = {}
    for python, compiler in chosen:
        if python not in machines:
            place = work / str(names.index(python))
            place.mkdir(exist_ok=True)
            machines[python] = Machine(options.root, place)
            try:
                print(
                    f"{python}: pip install {install(Machine(options.root, place), python, options.oldest):.1f} s",
                    flush=True,
                )
            except StepFailed as error:
                machines[python] = None
                yield f"{python}: FAIL  {error}", ""
        if machine := machines[python]:
            yield cell(machine, python, compiler, WHOLE if options.whole else LOOP)


def main() -> int:
    """Try all cells and print them."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=main.__doc__)
    parser.add_argument("--python", action="append", metavar="PATH", help="an interpreter; all of this machine's")
    parser.add_argument("--compiler", action="append", metavar="NAME", help="a compiler; all of this machine's")
    parser.add_argument("--root", type=Path, metavar="DIR", help="a directory with another distribution")
    parser.add_argument("--whole", action="store_true", help="all instruments, not only the loop")
    parser.add_argument("--oldest", action="store_true", help="with the oldest dependencies that are allowed")
    parser.add_argument("--turn", type=int, metavar="N", help="one cell, in turn")
    parser.add_argument("--few", action="store_true", help="each Python and each compiler once, not each with each")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pypto-machines-") as scratch:
        work = (options.keep or Path(scratch)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        digests = set()
        for row, digest in rows(options, work):
            print(row, flush=True)
            digests.add(digest)
    if len(digests - {""}) > 1:
        print(f"the outputs differ: {len(digests - {''})} kinds")
    return 0 if len(digests) == 1 and "" not in digests else 1


if __name__ == "__main__":
    sys.exit(main())
