"""`why` on runs of a billion elements, beside a replay of the same run: processor seconds and memory.

    python -m benchmarks.why [--scale 1.0] [--only wide] [--keep DIR]

Two runs whose instructions write 10^9 elements each (times SCALE): *wide* has five tasks of 1,221 blocks over matrices
of 80 MB each, *deep* 6,104 tasks after one another over a tile. Asked for is one element, by its chain (`OUT= AT=`) and
forward (`FROM= AT=`). Wanted: at most three times the replay's processor seconds, and 2 GB.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.rules.machinery.runtime_module import module_path
from pypto_build.runtime.build import build
from pypto_build.toolchain.host import find_compiler
from pypto_build.toolchain.python import own_tool

_REPOSITORY = Path(__file__).resolve().parents[1]
_SCONSTRUCT = "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
_WANTED, _WANTED_MB = 3.0, 2000
#: Elements that the instructions of `blend` write for each element of its output.
_WRITTEN = 10

_PROGRAM = '''"""Blends of blends, as `python -m benchmarks.why` measures them."""

import torch

import pypto_build.compiler.language as pl

ROWS, COLS, BLOCKS, ROUNDS = {rows}, 128, {blocks}, {rounds}
Matrix = pl.Tensor[[ROWS, COLS], pl.FP32]


@pl.jit.incore
def blend(a: Matrix, b: Matrix, out: pl.Out[Matrix]):
    share = ROWS // pl.get_block_num()
    first = pl.get_block_idx() * share
    for row in pl.range(first, first + share, {tile}):
        x = pl.load(a, [row, 0], [{tile}, COLS])
        y = pl.load(b, [row, 0], [{tile}, COLS])
        pl.store(((x * 0.5 + y * 0.25) * x + 0.125) * 0.5 + y * 0.5, [row, 0], out)


@pl.jit
def blends(a: Matrix, b: Matrix, f: pl.Out[Matrix]):
    c = pl.create_tensor([ROWS, COLS], pl.FP32)
    d = pl.create_tensor([ROWS, COLS], pl.FP32)
{body}

@blends.inputs
def inputs():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.rand(ROWS, COLS, generator=generator) for _ in range(2))
'''
_WIDE = """    blend[BLOCKS](a, b, c)
    blend[BLOCKS](c, b, d)
    blend[BLOCKS](d, a, c)
    blend[BLOCKS](c, d, d)
    blend[BLOCKS](d, c, f)
"""
_DEEP = """    blend[BLOCKS](a, b, c)
    for _ in pl.range(ROUNDS):
        blend[BLOCKS](c, b, d)
        blend[BLOCKS](d, a, c)
    blend[BLOCKS](c, d, f)
"""


@dataclass(frozen=True)
class Shape:
    """A run: its program's numbers, and its body."""

    rows: int
    blocks: int
    rounds: int
    tile: int
    body: str

    @property
    def elements(self) -> int:
        """The elements that its instructions write."""
        tasks = self.body.count("blend[") + 2 * max(self.rounds - 1, 0)
        return tasks * self.rows * 128 * _WRITTEN

    def text(self) -> str:
        """Its program."""
        return _PROGRAM.format(rows=self.rows, blocks=self.blocks, rounds=self.rounds, tile=self.tile, body=self.body)


def shapes(scale: float) -> dict[str, Shape]:
    """Runs of 10^9 elements times `scale`."""
    blocks = max(1, round(1221 * scale))
    return {
        "wide": Shape(128 * blocks, blocks, 0, 64, _WIDE),
        "deep": Shape(128, 1, max(1, round(3051 * scale)), 64, _DEEP),
    }


def prepare(directory: Path, name: str, shape: Shape) -> Path:
    """The artifact, compiled and built both ways; none of this counts."""
    artifact = directory / f"_jit_{name}"
    (directory / f"{name}.py").write_text(shape.text(), encoding="utf-8")
    words = [*own_tool("pypto_build.compiler"), str(directory / f"{name}.py"), "--output", str(artifact), "--no-golden"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    (directory / "SConstruct").write_text(_SCONSTRUCT, encoding="utf-8")
    for more in ((), ("CHECK=1",)):
        command = [sys.executable, "-m", "SCons", "-Q", "build", f"JIT={artifact}", *more]
        environment = {**os.environ, "PYTHONPATH": str(_REPOSITORY), "PYPTO_BUILD_SERVER": "0"}
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL, env=environment)
    return artifact


def measure(words: Sequence[str], statuses: Sequence[int] = (0,)) -> tuple[float, float]:
    """Processor seconds of a command with all that it starts, and megabytes of the largest of its processes."""
    code = (
        "import resource,subprocess,sys\n"
        "r = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)\n"
        "u = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "sys.stdout.write(f'{u.ru_utime + u.ru_stime} {u.ru_maxrss} {r.returncode}')\n"
        "sys.stderr.write(r.stdout.decode())\n"
    )
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    seconds, kilobytes, status = run.stdout.split()
    if int(status) not in statuses:
        raise SystemExit(f"{' '.join(words)} ended with {status}:\n{run.stderr[-3000:]}")
    return float(seconds), int(kilobytes) / 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each run and question, as soon as it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=("wide", "deep"))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and leave everything")
    options = parser.parse_args(argv)
    embedded = module_path(find_compiler())
    if not embedded.exists():
        build(embedded.parent)
    print(f"wanted: {_WANTED:g} times a replay's processor seconds, {_WANTED_MB} MB\n")
    print(
        "| run | elements | what | processor s | times | largest process, MB |\n|---|---|---|---|---|---|", flush=True
    )
    with tempfile.TemporaryDirectory(prefix="why") as temporary:
        root = (options.keep or Path(temporary)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        for name, shape in shapes(options.scale).items():
            if options.only in (None, name):
                _rows(root, name, shape, embedded)
    return 0


def _rows(directory: Path, name: str, shape: Shape, embedded: Path) -> None:
    artifact = prepare(directory, name, shape)
    out = directory / "build" / "a2a3sim" / artifact.name
    common = [str(artifact), "--platform", "a2a3sim", "--build-dir", str(out), "--embedded", str(embedded)]
    at = f"{shape.rows - 5},7"
    questions = {
        "replay": (["-m", "pypto_build.replay", *common], (0, 7)),
        "why OUT=f": (["-m", "pypto_build.diagnose.why", *common, "--out", "f", "--at", at], (0,)),
        "why FROM=a": (["-m", "pypto_build.diagnose.why", *common, "--from", "a", "--at", at], (0,)),
    }
    replay = 0.0
    for what, (words, statuses) in questions.items():
        seconds, megabytes = measure([sys.executable, *words], statuses)
        replay = replay or seconds
        times = f"{seconds / replay:.1f}"
        print(f"| {name} | {shape.elements:.2e} | {what} | {seconds:.2f} | {times} | {megabytes:.0f} |", flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
