"""Tries Pythons and compilers, each with each: installs from a copy of the clone, then types the steps.

    python -m tests.machines [--python PATH ...] [--compiler NAME ...] [--root DIR] [--whole] [--keep DIR] [--few]
        [--turn N] [--constraints FILE]

Prints a row a cell with the seconds of each step, and a digest of the outputs, which has to be the same in all. Exit
status 1 if a step does not do what it should, or outputs differ. Without options: all of this machine that the matrix
names; `--turn N` takes one cell of those whose Python and compiler are not the default, another one for every number.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.compilers import COMPILERS
from tests.machines.machine import CLONE, VERSIONS, Machine, StepFailed, copy_clone
from tests.machines.steps import ARTIFACT, INSTRUCTION, KERNEL, LOOP, WHOLE, Step

PYTHONS = [f"3.{minor}" for minor in range(10, 15)]


def found(name: str, root: Path | None) -> str | None:
    """Return the path of a program of a root, or of this machine; None where there is none."""
    path = "/usr/local/bin:/usr/bin:/bin"
    return shutil.which(name, path=os.pathsep.join(f"{root}{part}" for part in path.split(":")) if root else None)


def pythons(root: Path | None) -> list[str]:
    """Return the interpreters at hand, one of each version of the matrix; those that are missing are named."""
    paths = []
    for version in PYTHONS:
        own = sorted(VERSIONS.glob(f"{version}.*/bin/python3")) if VERSIONS.is_dir() else []
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


def install(machine: Machine, python: str, constraints: Path, what: str) -> float:
    """README's first command but for its replay; the seconds that pip takes."""
    clone = machine.inside / "clone"
    if not (machine.work / "clone").exists():
        copy_clone(machine.work / "clone")
    shutil.copyfile(constraints, machine.work / "clone" / "constraints.txt")
    for words in ([python, "-m", "venv", ".venv"], [".venv/bin/pip", "install", "-q", "-c", "constraints.txt", what]):
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


def replay_here(pack: Path, work: Path) -> None:
    """Replay a pack on this machine, with the clone. Raises `StepFailed`."""
    words = [
        sys.executable,
        "-m",
        "pypto_build.cli",
        "replay",
        str(pack),
        f"BUILD_DIR={work / 'here'}",
        "-p",
        "a2a3sim",
    ]
    status, output = Machine(None, work).run(words, CLONE)
    if status or "[RUN] PASS" not in output:
        raise StepFailed(f"{' '.join(words)}: exit status {status}\n{output}")


def cell(machine: Machine, python: str, compiler: str, steps: Sequence[Step]) -> tuple[str, str]:
    """The row of one cell, and the digest of its outputs; empty where a step failed."""
    digest = hashlib.sha256()
    seconds: list[str] = []
    out = f"build-{Path(compiler).name}"
    try:
        seconds += (f"{step.name} {perform(machine, step, compiler, out, digest):.1f}" for step in steps)
        if pack := next((machine.work / "clone" / out / "a2a3sim" / ARTIFACT).glob("*.tar.zst"), None):
            replay_here(pack, machine.work)
            seconds.append("replayed here")
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


def is_default(python: str, compiler: str) -> bool:
    """Return whether one of them is what the tests run with on this machine."""
    default = shutil.which("g++") or shutil.which("clang++") or ""
    return f"3.{sys.version_info.minor}" in python or os.path.realpath(found(compiler, None) or "") == os.path.realpath(
        default
    )


def rows(options: argparse.Namespace, work: Path) -> Iterator[tuple[str, str]]:
    """Yield every cell's row and digest; with `--few` each Python and each compiler is in one cell at least."""
    names, tools = options.python or pythons(options.root), options.compiler or compilers(options.root)
    chosen = cells(names, tools)
    if options.few:
        chosen = chosen[: max(len(names), len(tools))]
    if options.turn is not None:
        others = [pair for pair in chosen if not is_default(*pair)]
        if not others:
            print("no other Python with another compiler is installed: none is tried")
        chosen = others[options.turn % len(others) :][:1] if others else []
    what, steps = (".[reference]", WHOLE) if options.whole else (".", LOOP)
    machines: dict[str, Machine | None] = {}
    for python, compiler in chosen:
        if python not in machines:
            machine = Machine(options.root, work / str(names.index(python)))
            machine.work.mkdir(exist_ok=True)
            machines[python] = machine
            try:
                seconds = install(machine, python, options.constraints, what)
                print(f"{python}: pip install {seconds:.1f} s", flush=True)
            except StepFailed as error:
                machines[python] = None
                yield f"{python}: FAIL  {error}", ""
        if entered := machines[python]:
            yield cell(entered, python, compiler, steps)


def main() -> int:
    """Try all cells and print them."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=main.__doc__)
    parser.add_argument("--python", action="append", metavar="PATH", help="an interpreter; all of this machine's")
    parser.add_argument("--compiler", action="append", metavar="NAME", help="a compiler; all of this machine's")
    parser.add_argument("--root", type=Path, metavar="DIR", help="a directory with another distribution")
    parser.add_argument("--whole", action="store_true", help="all instruments, not only the loop")
    constraints = CLONE / "constraints.txt"
    parser.add_argument("--constraints", type=Path, metavar="FILE", default=constraints, help="in place of the clone's")
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
    return 0 if len(digests) <= 1 and "" not in digests else 1


if __name__ == "__main__":
    sys.exit(main())
