"""Programs for the tests: written to a file, compiled to a dictionary of texts."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.compiler import ApiVintage, Options, Program, build_program, compile_entry, run_passes
from pypto_build.compiler.__main__ import main as compile_program
from pypto_build.compiler.golden import main as compute_golden
from pypto_build.compiler.language import JitFunction
from pypto_build.compiler.load import entries_of, load_module

HEAD = "import pypto_build.compiler.language as pl\nM = pl.Tensor[[64, 64], pl.FP32]\n"
PLAIN = Options(locations=False)


def load(tmp_path: Path, body: str) -> JitFunction:
    """The one program of a file that consists of HEAD, in lines 1 and 2, and `body`."""
    path = tmp_path / "program.py"
    path.write_text(HEAD + body)
    return entries_of(load_module(str(path)))[0]


def kernel(body: str, parameters: str = "x: M, out: pl.Out[M]", call: str = "x, out", program: str = "") -> str:
    """A kernel `k`, whose body starts in line 5, and a program that calls it."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return f"@pl.jit.incore\ndef k({parameters}):\n{lines}@pl.jit\ndef main({program or parameters}):\n    k({call})\n"


def files(tmp_path: Path, body: str, options: Options = PLAIN, platform: str = "a2a3sim") -> dict[str, str]:
    return compile_entry(load(tmp_path, body), tmp_path / "out", platform, options)


def passed(tmp_path: Path, body: str) -> tuple[Program, dict[str, str]]:
    """The program after all passes, and its text after each of them."""
    dumps: dict[str, str] = {}
    program = run_passes(build_program(load(tmp_path, body)), dumps)
    return program, {name.partition("_after_")[2].removesuffix(".py") or "frontend": t for name, t in dumps.items()}


def in_vintage(text: str, vintage: ApiVintage) -> str:
    """An orchestration of today's API in the words of another generation."""
    text = re.sub(r"orch_args\.tensor\((\d+)\)\.ref\(\)", lambda m: vintage.external.format(i=m[1]), text)
    if vintage.by_value:
        text = text.replace("const ChipTensor& ext_", "ChipTensor ext_")
    for old, new in (("ChipTensor", "tensor"), ("ChipTaskArgs", "entry_args"), ("CoreTaskArgs", "task_args")):
        text = text.replace(old, getattr(vintage, new))
    return text


def lines_of(text: str, start: str, end: str) -> list[str]:
    """The lines from the first that contains `start` to the next that contains `end`, without indentation."""
    lines = [line.strip() for line in text.splitlines()]
    first = next(i for i, line in enumerate(lines) if start in line)
    last = next(i for i, line in enumerate(lines[first:], first) if end in line)
    return lines[first : last + 1]


def compile_with_data(source: Path, output: Path) -> None:
    """`pypto_build.compiler SOURCE --output OUTPUT`, whose data this process computes, which may have torch already."""
    assert compile_program([str(source), "--output", str(output), "--no-golden"]) == 0
    for golden in sorted(output.rglob("golden.py")):
        assert compute_golden([str(golden.parent)]) == 0
