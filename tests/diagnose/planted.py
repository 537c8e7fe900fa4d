"""Thirty bugs planted in two programs before their modules, in them and after them, and what `triage` says of each.

`python -m tests.diagnose.planted [NAME…]` prints the table. Every bug is looked for in an artifact that was never
replayed before; `test_planted.py` runs a sample.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pypto_build.toolchain.python import own_tool

ROWGATE = '''"""Centers rows, then gates them."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, COLS, BLOCK = 64, 128, 32


@pl.jit.incore
def center(x: pl.Tensor[[ROWS, COLS], pl.FP32], y: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]], row: pl.Scalar[pl.INDEX]):
    tile = pl.load(x, [row, 0], [BLOCK, COLS])
    mean = pl.row_sum(tile) * (1.0 / COLS)
    pl.store(pl.row_expand_sub(tile, mean), [row, 0], y)


@pl.jit.incore
def gate(
    y: pl.Tensor[[ROWS, COLS], pl.FP32],
    g: pl.Tensor[[ROWS, COLS], pl.FP32],
    z: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
    row: pl.Scalar[pl.INDEX],
):
    a = pl.load(y, [row, 0], [BLOCK, COLS])
    b = pl.load(g, [row, 0], [BLOCK, COLS])
    soft = pl.exp(b * 0.5)
    pl.store(soft * a + 1.0, [row, 0], z)


@pl.jit
def rowgate(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    g: pl.Tensor[[ROWS, COLS], pl.FP32],
    z: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    y = pl.create_tensor([ROWS, COLS], pl.FP32)
    for row in pl.range(0, ROWS, BLOCK):
        center(x, y, row)
    for row in pl.range(0, ROWS, BLOCK):
        gate(y, g, z, row)


@rowgate.reference
def reference(x, g, z):
    import torch

    y = x - x.mean(dim=1, keepdim=True)
    z[:] = torch.exp(g * 0.5) * y + 1.0
'''

MIX = '''"""A product of rounded rows, divided by the largest of each row."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, DEPTH, COLS = 32, 64, 64


@pl.jit.incore
def product(
    a: pl.Tensor[[ROWS, DEPTH], pl.FP32],
    w: pl.Tensor[[DEPTH, COLS], pl.BF16],
    c: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    left = pl.cast(pl.load(a, [0, 0], [ROWS, DEPTH]), pl.BF16)
    pl.store(pl.matmul(left, pl.load(w, [0, 0], [DEPTH, COLS])), [0, 0], c)


@pl.jit.incore
def scale(
    c: pl.Tensor[[ROWS, COLS], pl.FP32],
    b: pl.Tensor[[ROWS, COLS], pl.FP32],
    d: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
    factor: pl.Scalar[pl.FP32],
):
    x = pl.load(c, [0, 0], [ROWS, COLS]) + pl.load(b, [0, 0], [ROWS, COLS])
    top = pl.row_max(pl.abs(x))
    pl.store(pl.row_expand_div(x * factor, top), [0, 0], d)


@pl.jit
def mix(
    a: pl.Tensor[[ROWS, DEPTH], pl.FP32],
    w: pl.Tensor[[DEPTH, COLS], pl.BF16],
    b: pl.Tensor[[ROWS, COLS], pl.FP32],
    d: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    c = pl.create_tensor([ROWS, COLS], pl.FP32)
    product(a, w, c)
    scale(c, b, d, 4.0)


@mix.reference
def reference(a, w, b, d):
    import torch

    x = a.to(torch.bfloat16).float() @ w.float() + b
    top = x.abs().amax(dim=1, keepdim=True)
    d[:] = x * 4.0 / top
'''
PROGRAMS = {"rowgate": ROWGATE, "mix": MIX}


@dataclass(frozen=True)
class Planted:
    """``old`` becomes ``new`` in ``file``, of the program before it is compiled, else of its artifact."""

    name: str
    program: str
    file: str
    old: str
    new: str

    @property
    def stage(self) -> str:
        """Return on which side of the modules it is."""
        if self.file.endswith(".pto"):
            return "module"
        python = self.file.endswith(".py") and self.file != "kernel_config.py"
        return "before" if python or self.file.startswith("data/") else "after"


_R, _M = "rowgate", "mix"
_CENTER, _GATE, _SCALE = "ptoas/center.pto", "ptoas/gate.pto", "ptoas/scale.pto"
# fmt: off
PLANTED = (
    Planted("program: operator", _R, "rowgate.py", "soft * a + 1.0, [row", "soft - a + 1.0, [row"),
    Planted("program: constant", _R, "rowgate.py", "pl.exp(b * 0.5)", "pl.exp(b * 0.25)"),
    Planted("program: operand", _R, "rowgate.py", "b = pl.load(g,", "b = pl.load(y,"),
    Planted("program: loop bound", _R, "rowgate.py", "range(0, ROWS, BLOCK):\n        g", "range(BLOCK, ROWS, BLOCK):\n        g"),
    Planted("program: missing call", _M, "mix.py", "top = pl.row_max(pl.abs(x))", "top = pl.row_max(x)"),
    Planted("program: missing cast in the reference", _M, "mix.py", "a.to(torch.bfloat16).float() @", "a @"),
    Planted("reference: axis", _R, "rowgate.py", "x.mean(dim=1, keepdim=True)", "x.mean(dim=0, keepdim=True)"),
    Planted("reference: constant", _M, "mix.py", "x * 4.0 / top", "x * 2.0 / top"),
    Planted("golden.py: operator", _R, "golden.py", "* y + 1.0", "* y - 1.0"),
    Planted("golden: another tensor", _M, "data/out/d.pt", "", ""),
    Planted("module: operation", _R, _CENTER, "pto.trowexpandsub", "pto.trowexpandadd"),
    Planted("module: constant", _R, _GATE, "constant 5.00000000000000000e-01", "constant 2.50000000000000000e-01"),
    Planted("module: function", _R, _GATE, "pto.texp ins", "pto.tabs ins"),
    Planted("module: reduction", _R, _CENTER, "pto.trowsum ins", "pto.trowmax ins"),
    Planted("module: offset", _R, _GATE, "offsets = [%arg3, %c0_index]", "offsets = [%c0_index, %c0_index]"),
    Planted("module: operand", _M, _SCALE, "pto.tadd ins(", "pto.tsub ins("),
    Planted("module: reduction of another kind", _M, _SCALE, "pto.trowmax ins", "pto.trowmin ins"),
    Planted("module: missing absolute value", _M, _SCALE, "pto.tabs ins", "pto.tneg ins"),
    Planted("module: rounding", _M, "ptoas/product.pto", "round_mode RINT", "round_mode CEIL"),
    Planted("module: scalar", _R, _CENTER, "constant 7.81250000000000000e-03", "constant 1.56250000000000000e-02"),
    Planted("kernel: operation", _R, "kernels/aiv/gate.cpp", "TMUL(", "TADD("),
    Planted("kernel: constant", _R, "kernels/aiv/gate.cpp", "= 0.5f", "= 0.75f"),
    Planted("kernel: offset", _R, "kernels/aiv/center.cpp", "arg2 * 128", "arg2 * 64"),
    Planted("kernel: missing instruction", _M, "kernels/aiv/scale.cpp", "TABS(", "// TABS("),
    Planted("orchestration: loop bound", _R, "orchestration/rowgate.cpp", "< 64", "< 32"),
    Planted("orchestration: input", _R, "orchestration/rowgate.cpp", "add_input(ext_g)", "add_input(ext_x)"),
    Planted("orchestration: scalar", _M, "orchestration/mix.cpp", "4.0f", "3.0f"),
    Planted("orchestration: kernel", _R, "orchestration/rowgate.cpp", "rt_submit_aiv_task(1,", "rt_submit_aiv_task(0,"),
    Planted("manifest: numbers exchanged", _R, "kernel_config.py", "", ""),
    Planted("manifest: direction", _M, "kernel_config.py", '"signature": [_D.IN, _D.IN, _D.OUT]}', '"signature": [_D.IN, _D.OUT, _D.OUT]}'),
)
# fmt: on


@dataclass(frozen=True)
class Answer:
    """The answer of triage: its first line, whether it was called the cause, seconds and replays."""

    text: str
    line: str
    certain: bool
    seconds: float
    replays: int

    @property
    def position(self) -> str:
        """Return the file and line that it begins with."""
        return self.line.partition(": error:")[0]

    def names(self, expected: str) -> bool:
        """Return whether it names a position: first, or as one of two of which it says that either may be wrong."""
        return self.position == expected or (not self.certain and f" {expected}: or the" in self.text)


def plant(bug: Planted, directory: Path) -> tuple[Path, str]:
    """Compile the program with the bug; the artifact, and the position that has to be named."""
    line = 0
    program, artifact = directory / f"{bug.program}.py", directory / "build_output" / f"_jit_{bug.program}"
    text = PROGRAMS[bug.program]
    if bug.file == program.name:
        line = _line(text, bug)
        text = _edited(text, bug)
    program.write_text(text)
    command = [*own_tool("pypto_build.compiler"), str(program), "--output", str(artifact)]
    subprocess.run(command, check=True, capture_output=True, cwd=directory)
    if bug.file == program.name:
        return artifact, f"{program.name}:{line}"
    target = artifact / bug.file
    if bug.file.startswith("data/"):
        data = bytearray(target.read_bytes())
        import torch

        torch.save(torch.load(target, weights_only=True) * 1.25, target)
        assert target.read_bytes() != data
        return artifact, bug.file
    text = target.read_text()
    if not bug.old:
        text = re.sub(r'("func_id": )([01])', lambda match: f"{match[1]}{1 - int(match[2])}", text)
        line = text[: text.index('"func_id"')].count("\n") + 1
        target.write_text(text)
        return artifact, f"{bug.file}:{line}"
    target.write_text(_edited(text, bug))
    if bug.file == "golden.py":
        subprocess.run([*own_tool("pypto_build.compiler.golden"), str(artifact)], check=True, capture_output=True)
    return artifact, f"{bug.file}:{_line(text, bug)}"


def _edited(text: str, bug: Planted) -> str:
    assert bug.old in text, bug
    return text.replace(bug.old, bug.new, 1)


def _line(text: str, bug: Planted) -> int:
    return text.count("\n", 0, text.index(bug.old)) + 1


def triage(artifact: Path) -> Answer:
    """Ask triage about an artifact."""
    begun = time.monotonic()
    command = [*own_tool("pypto_build.cli"), "triage", str(artifact)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=artifact.parents[1])
    _, _, answer = run.stdout.partition("[triage]")
    lines = answer.splitlines() or [run.stdout + run.stderr]
    first = next((line for line in lines if ": error: " in line), "")
    replays = re.search(r"(\d+) replays", answer)
    return Answer(
        answer, first, lines[0].endswith("the cause:"), time.monotonic() - begun, int(replays[1]) if replays else -1
    )


def main(names: list[str]) -> int:
    """Print a row for each bug."""
    right = 0
    for number, bug in enumerate(PLANTED, 1):
        if names and not any(name in bug.name for name in names):
            continue
        with tempfile.TemporaryDirectory(prefix="planted-") as directory:
            artifact, expected = plant(bug, Path(directory))
            answer = triage(artifact)
        named = answer.names(expected)
        right += named
        sure, said = "cause" if answer.certain else "likely", answer.position
        cells = (number, bug.name, f"`{expected}`", f"`{said}`", sure, "yes" if named else "NO")
        print(f"| {' | '.join(map(str, cells))} | {answer.seconds:.0f} s | {answer.replays} |", flush=True)
        if not named:
            print("\n".join(f"    {line}" for line in answer.text.splitlines()[:12]), file=sys.stderr, flush=True)
    print(f"{right} at the line")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
