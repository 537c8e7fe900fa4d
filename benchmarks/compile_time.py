"""Compile time of kernels against the headers of the embedded runtime, beside another library's where there is one.

    python -m benchmarks.compile_time [PATH …] [--repeat 5] [--compiler CXX] [--pto-isa CHECKOUT]

Each PATH is a kernel or a directory that has kernels below kernels/aic and kernels/aiv, such as an artifact; by default
those of the examples and generated ones. Seconds are processor time, medians over the repeats, with the flags of
replays. Each kernel is compiled twice. Once as replays do: with g++ the instruction header is precompiled, and
instances are linked in later. Once from the header's text, with instances of the kernel's own. The budget is 0.12 s for
a typical kernel. A checkout of pto-isa (``--pto-isa``, or ``PTO_ISA`` in the environment) is measured in turns with
ours, by the same compiler and with the flags of its own simulator. The budget is then half of its time, against ours
from the text.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peer import CORE_MACRO, PEER_FLAGS
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.toolchain.host import INCLUDE_DIR, HostCompiler, UnitRecipe, find_compiler, host_recipe

_REPOSITORY = Path(__file__).resolve().parents[1]
_TYPICAL_BUDGET_S = 0.12
_GENERATED_BLOCKS = (1, 8, 64)

_KERNEL = """#include <cstdint>
#include <pto/pto-inst.hpp>
#include "tensor.h"
using namespace pto;
extern "C" void kernel_entry(int64_t* args) {{
  const int64_t rows = args[2];
  float* v1 = reinterpret_cast<float*>(reinterpret_cast<ChipTensor*>(args[0])->buffer.addr);
  float* v2 = reinterpret_cast<float*>(reinterpret_cast<ChipTensor*>(args[1])->buffer.addr);
{body}}}
"""
_TILE = "Tile<TileType::Vec, {type}, 16, {cols}, BLayout::{major}, -1, -1, SLayout::NoneBox, 512, PadValue::Null>"
_VIEW = "GlobalTensor<float, pto::Shape<1, 1, 1, 16, 128>, pto::Stride<2048, 2048, 2048, 128, 1>, pto::Layout::ND>"
_BLOCK = """  {{
    {wide} a(rows, 128), b(rows, 128);
    {narrow} r(rows, 1);
    {half} h(rows, 128);
    TASSIGN(a, (uint64_t){at});
    TASSIGN(b, (uint64_t){at} + 8192);
    TASSIGN(r, (uint64_t){at} + 16384);
    TASSIGN(h, (uint64_t){at} + 20480);
    {view} from(v1 + {at}, pto::Shape<1, 1, 1, 16, 128>(), pto::Stride<2048, 2048, 2048, 128, 1>());
    {view} to(v2 + {at}, pto::Shape<1, 1, 1, 16, 128>(), pto::Stride<2048, 2048, 2048, 128, 1>());
    TLOAD(a, from);
    TROWMAX(r, a, b);
    TROWEXPANDSUB(a, a, r);
    TEXP(a, a);
    TROWSUM(r, a, b);
    TROWEXPANDDIV(a, a, r);
    TMULS(b, a, 0.5f);
    TADD(a, a, b);
    TCVT(h, a, RoundMode::CAST_ROUND, SaturationMode::OFF);
    TCVT(b, h, RoundMode::CAST_ROUND, SaturationMode::OFF);
    TMUL(a, a, b);
    TSTORE(to, a);
  }}
"""
_BLOCK_INSTRUCTIONS = 12


@dataclass(frozen=True)
class Row:
    """Seconds of the processor to compile a kernel; the peer's are None where it was not asked or refuses it."""

    kernel: Path
    ours: float
    text: float
    peer: float | None


def kernels_below(path: Path) -> list[Path]:
    """The kernels that a path names: itself, or those of the artifacts below it."""
    if path.is_file():
        return [path]
    kernels = sorted(file for file in path.rglob("*.cpp") if file.parent.name in CORE_MACRO)
    if not kernels:
        sys.exit(f"{path}: no kernels/aic/*.cpp or kernels/aiv/*.cpp below; name an artifact or a kernel")
    return kernels


def write_softmax(directory: Path, blocks: int) -> Path:
    """A kernel of as many blocks of a softmax and conversions, each at addresses of its own."""
    tiles = {
        "wide": _TILE.format(type="float", cols=128, major="RowMajor"),
        "narrow": _TILE.format(type="float", cols=1, major="ColMajor"),
        "half": _TILE.format(type="half", cols=128, major="RowMajor"),
    }
    body = "".join(_BLOCK.format(at=128 * block, view=_VIEW, **tiles) for block in range(blocks))
    kernel = directory / "generated" / "kernels" / "aiv" / f"{blocks * _BLOCK_INSTRUCTIONS}_instructions.cpp"
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_text(_KERNEL.format(body=body), encoding="utf-8")
    return kernel


def _compile(command: Sequence[str]) -> float | None:
    """Seconds of the processor, None if the compilation fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent if done.returncode == 0 else None


def _median(times: Sequence[float | None]) -> float | None:
    taken = [time for time in times if time is not None]
    return statistics.median(taken) if len(taken) == len(times) else None


def measure(kernel: Path, compiler: HostCompiler, isa: Path | None, repeat: int, target: Path) -> Row:
    """Compiles one kernel as often as asked, in turns with the peer."""
    core = kernel.parent.name if kernel.parent.name in CORE_MACRO else "aiv"
    tail = ["-c", str(kernel), "-o", str(target)]
    recipe = host_recipe(compiler, PLATFORMS["a2a3sim"])[core]
    text = recipe.compile_argv(str(kernel), str(target))
    ours = [text[0], *_precompiled(recipe, target.parent / core), *recipe.calling, *text[1:]]
    includes = [f"-I{isa}/include", f"-I{isa}/include/pto", f"-I{INCLUDE_DIR}"] if isa else []
    peer = [compiler.path, *PEER_FLAGS, CORE_MACRO[core], *includes, *tail]
    turns = [(_compile(ours), _compile(text), _compile(peer) if isa else None) for _ in range(repeat)]
    spent, from_text, beside = (_median(times) for times in zip(*turns, strict=True))
    if spent is None or from_text is None:
        sys.exit(f"{kernel}: does not compile: {' '.join(text)}")
    return Row(kernel, spent, from_text, beside)


def _precompiled(recipe: UnitRecipe, directory: Path) -> list[str]:
    """The words that make the compiler take the recipe's main header precompiled; none where it cannot."""
    if not recipe.main_header:
        return []
    header = directory / "main_header.hpp"
    if not header.exists():
        directory.mkdir()
        header.write_text(f"#include <{recipe.main_header}>\n", encoding="utf-8")
        subprocess.run(recipe.precompile_argv(str(header), f"{header}.gch"), check=True)
    return ["-include", str(header)]


def _report(rows: Sequence[Row]) -> Iterator[str]:
    ours = [row.ours for row in rows]
    over = sum(spent > _TYPICAL_BUDGET_S for spent in ours)
    yield (
        f"{len(rows)} kernels: median {statistics.median(ours):.3f} s, longest {max(ours):.3f} s, "
        f"{over} above {_TYPICAL_BUDGET_S} s, {sum(ours):.1f} s together; "
        f"from the header's text median {statistics.median(row.text for row in rows):.3f} s"
    )
    shares = [row.text / row.peer for row in rows if row.peer is not None]
    if shares:
        yield (
            f"beside the peer's headers, {len(shares)} kernels: median {statistics.median(shares):.0%} of its time, "
            f"greatest share {max(shares):.0%}, {sum(share > 0.5 for share in shares)} above half"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="kernels, or directories with kernels")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--compiler", default="", metavar="CXX")
    parser.add_argument("--pto-isa", default=os.environ.get("PTO_ISA", ""), metavar="CHECKOUT")
    options = parser.parse_args()
    isa = Path(options.pto_isa) if options.pto_isa else None
    if isa and not (isa / "include" / "pto").is_dir():
        sys.exit(f"{isa}: has no include/pto, so it is no checkout of pto-isa; correct --pto-isa or PTO_ISA")
    compiler = find_compiler(options.compiler)
    print(f"{compiler.path} {compiler.version}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(f"{'kernel':60} {'lines':>6} {'s':>7} {'text s':>7}" + f" {'peer s':>7} {'share':>6}" * bool(isa))
    with tempfile.TemporaryDirectory() as directory:
        paths = options.paths
        if not paths:
            generated = [write_softmax(Path(directory), blocks) for blocks in _GENERATED_BLOCKS]
            paths = [_REPOSITORY / "examples" / "artifacts", *generated]
        rows = []
        for kernel in [kernel for path in paths for kernel in kernels_below(path)]:
            row = measure(kernel, compiler, isa, options.repeat, Path(directory) / "kernel.o")
            rows.append(row)
            beside = ""
            if isa:
                beside = f" {row.peer:7.3f} {row.text / row.peer:6.0%}" if row.peer else "  refused"
            lines = kernel.read_text(encoding="utf-8").count("\n")
            name = f"{kernel.parents[2].name}/{kernel.parent.name}/{kernel.name}"
            print(f"{name[-60:]:60} {lines:6} {row.ours:7.3f} {row.text:7.3f}{beside}", flush=True)
        for line in _report(rows):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
