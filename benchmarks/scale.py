"""Large and many artifacts: null, an edit, a header's, cold, from warm stores, beside ninja on the same commands.

    python -m benchmarks.scale [--kernels 3 50 400 2000] [--artifacts 1 20 200] [--only null edit ...] [--no-ninja]

For each size artifacts are generated and replayed by one command: seconds, processor seconds, commands that compiled,
linked or ran, and the memory of the largest process. Artifacts differ, so that none is taken for another. Every row
starts from what the row before left, so with ``--only`` the missing ones are prepared but not shown. Several artifacts
have the least number of kernels that was named. The runtime and its headers are there already: they are built once a
machine. Ninja compiles, links and replays with the very same command lines, through ccache if there is one. "whole" is
every kernel compiled by itself, as upstream's runners do after any edit. Of many kernels twenty are compiled, and the
row shows the time scaled to all. A header is edited where there are at most fifty kernels, and 200 artifacts are not
built by ninja: both would take longer than everything else.

"handed over" is what users have from their second command on: the resident process does it. All other rows do without.

The farm does 20 artifacts with four local workers, beside four commands that do a quarter of them each.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from benchmarks.edit_loop import edit_source, write_ninja, write_sconstruct
from benchmarks.generated import write_chain

_REPOSITORY = Path(__file__).resolve().parents[1]
_ACTION = re.compile(r"^\[[\w>.-]+\] (?:compile|link|run|sign) ", re.MULTILINE)
SCENES = ("cold", "null", "edit", "header", "local store", "remote store", "whole", "farm")
_SAMPLE = 20
_MOST_WITH_A_HEADER, _MOST_BY_NINJA, _MOST_ON_THE_FARM = 50, 20, 20
_WORKERS = 4
# The resident process has loaded everything by then, and one that stands has looked ahead.
_TO_LOAD_S = 3.0


@dataclass(frozen=True)
class Row:
    """One command: how many kernels in how many artifacts, what had happened before, and what it took."""

    kernels: int
    artifacts: int
    scene: str
    tool: str
    seconds: float
    processor_s: float
    actions: int
    memory_mb: float

    def __str__(self) -> str:
        actions = str(self.actions) if self.actions >= 0 else ""
        processor = f"{self.processor_s:.2f}" if self.processor_s >= 0 else ""
        cells = [self.kernels, self.artifacts, self.scene, self.tool, f"{self.seconds:.2f}", processor]
        return "| " + " | ".join(map(str, [*cells, actions, f"{self.memory_mb:.0f}"])) + " |"


class Bench:
    """``artifacts`` chains of ``kernels`` kernels in ``directory``."""

    def __init__(self, directory: Path, kernels: int, artifacts: int) -> None:
        self.directory, self.kernels, self.artifacts = directory, kernels, artifacts
        self.roots = [self._write(number) for number in range(artifacts)]
        write_sconstruct(directory)

    def _write(self, number: int) -> Path:
        """One artifact, which differs from the others in a symbol of every unit."""
        written = write_chain(self.directory / "writing", self.kernels)
        root = self.directory / "build_output" / f"_jit_scale_{number:03d}"
        root.parent.mkdir(exist_ok=True)
        written.rename(root)
        for source in root.glob("*/**/*.cpp"):
            with source.open("a", encoding="utf-8") as file:
                file.write(f'asm(".pushsection .comment.of; .long {number}; .popsection");\n')
        return root

    @property
    def source(self) -> Path:
        """The kernel that is edited."""
        return self.roots[len(self.roots) // 2] / "kernels" / "aiv" / f"step_{self.kernels // 2}.cpp"

    def undo(self) -> None:
        """Take the edit back."""
        text = self.source.read_text(encoding="utf-8").partition('asm(".pushsection .comment.edit')[0]
        self.source.write_text(text, encoding="utf-8")

    def scons(self, scene: str, *words: str) -> Row:
        """Replay all of them."""
        command = [sys.executable, "-m", "SCons", "-Q", "replay", "JIT=_jit_scale_*", "VERBOSE=1", *words]
        begun = time.time()
        row, text = self._run(scene, "scons", command, self.directory)
        logs = (self.directory / "build" / "logs").glob("*.log")
        text += "".join(path.read_text(encoding="utf-8") for path in logs if path.stat().st_mtime >= begun)
        return Row(**{**vars(row), "actions": len(_ACTION.findall(text))})

    def served(self) -> Row:
        """Nothing to do, handed over to a resident process that knows the command."""
        name = "_jit_scale_*" if self.artifacts > 1 else self.roots[0].name
        command = [sys.executable, "-m", "SCons", "-Q", "replay", f"JIT={name}"]
        for _ in range(3):
            self._run("", "scons", command, self.directory, PYPTO_BUILD_SERVER="1")
            time.sleep(_TO_LOAD_S)
        row, _ = self._run("null, handed over", "scons", command, self.directory, PYPTO_BUILD_SERVER="1")
        client = [sys.executable, "-m", "pypto_build.resident.client"]
        self._run("", "", [*client, "shutdown"], self.directory)
        return replace(row, processor_s=-1.0)  # who works for it is no child of this process

    def farm(self) -> Row:
        """All of them by local workers, with nothing in a store."""
        self._forget()
        row = self.scons("farm of 4", "SCHEDULER=local", f"-j{_WORKERS}")
        return replace(row, processor_s=-1.0)  # its workers are no children of this process

    def independent(self) -> Row:
        """The same by as many commands at once, a share each."""
        self._forget()
        command = [sys.executable, "-m", "SCons", "-Q", "replay", "JIT=_jit_scale_*"]
        shares = [
            shlex.join([*command, f"SHARD={number + 1}/{_WORKERS}", f"BUILD_DIR=build{number}"])
            for number in range(_WORKERS)
        ]
        together = " & ".join(f"{share} > share{number}.log" for number, share in enumerate(shares))
        row, _ = self._run("4 commands", "scons", ["sh", "-c", f"{together} & wait"], self.directory)
        passed = sum(" passed" in (self.directory / f"share{n}.log").read_text("utf-8") for n in range(_WORKERS))
        if passed != _WORKERS:
            raise SystemExit(f"{_WORKERS - passed} of the shares failed")
        return row

    def _forget(self) -> None:
        for name in ("build", "store", *(f"build{number}" for number in range(_WORKERS))):
            shutil.rmtree(self.directory / name, ignore_errors=True)

    def whole(self) -> Row:
        """Every kernel by itself; what of many a few take, times as many."""
        ninja_dir = write_ninja(self.directory, self.roots[0], plain=_SAMPLE)
        row, _ = self._run("whole rebuild", "ninja", ["ninja", "-f", str(ninja_dir / "build.ninja")], self.directory)
        if self.kernels <= _SAMPLE:
            return row
        times = self.kernels / _SAMPLE
        measured = f"whole rebuild, from {_SAMPLE} kernels"
        return replace(row, scene=measured, seconds=row.seconds * times, processor_s=row.processor_s * times)

    def ninja(self, scene: str) -> Row:
        """The same by ninja."""
        return self._run(scene, "ninja", ["ninja", "-f", "all.ninja"], self.directory)[0]

    def write_ninja(self) -> None:
        """A file for each artifact, and one that names them."""
        lines = []
        for root in self.roots:
            written = write_ninja(self.directory, root)
            ninja_dir = written.rename(written.parent / f"ninja_{root.name}")
            text = (ninja_dir / "build.ninja").read_text(encoding="utf-8").replace(str(written), str(ninja_dir))
            if ccache := shutil.which("ccache"):
                text = re.sub(r"(?m)^  cmd = (\S*g\+\+) ", rf"  cmd = {ccache} \1 ", text)
            (ninja_dir / "build.ninja").write_text(text, encoding="utf-8")
            lines.append(f"subninja {ninja_dir}/build.ninja\n")
        (self.directory / "all.ninja").write_text("".join(lines), encoding="utf-8")

    def clean_ninja(self) -> None:
        """Remove what ninja built."""
        for path in self.directory.glob("ninja_*/**/*"):
            if path.suffix in (".o", ".so") or path.name == "verdict.json":
                path.unlink()
        for path in self.directory.glob(".ninja_*"):
            path.unlink()

    def _run(self, scene: str, tool: str, command: Sequence[str], directory: Path, **more: str) -> tuple[Row, str]:
        environment = {**os.environ, "PYTHONPATH": str(_REPOSITORY)}
        environment |= {
            "PYPTO_BUILD_SERVER": "0",
            "XDG_RUNTIME_DIR": str(directory),
            "PYPTO_BUILD_STORE": str(directory / "store"),
            "CCACHE_DIR": str(directory / "ccache"),
        }
        environment |= more
        environment["CCACHE_SLOPPINESS"] = "pch_defines,time_macros,include_file_mtime,include_file_ctime"
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        with subprocess.Popen(
            command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            text = process.stdout.read() if process.stdout else ""
            _, status, own = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        if process.returncode:
            raise SystemExit(f"{shlex.join(command)} failed:\n{text[-4000:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Row(self.kernels, self.artifacts, scene, tool, seconds, used, -1, own.ru_maxrss / 1024), text


def measure(bench: Bench, show: Callable[[Row], None], scenes: Sequence[str], ninja: bool) -> None:
    """All scenes of one size, each shown if it is among ``scenes``."""
    remote = f"STORE_REMOTE={bench.directory / 'remote'}"
    (bench.directory / "remote").mkdir()
    rows = {scene: show if scene in scenes else _nothing for scene in SCENES}
    rows["cold"](bench.scons("cold", remote, "STORE_UPLOAD=wait"))
    if "null" in scenes:
        show(bench.scons("null"))
        show(bench.served())
    if "edit" in scenes:
        edit_source(bench.source)
        show(bench.scons("edit"))
    for scene, lost in (("local store", ("build",)), ("remote store", ("build", "store"))):
        if scene in scenes:
            bench.undo()
            for name in lost:
                shutil.rmtree(bench.directory / name)
            show(bench.scons(scene, remote))
    if ninja and bench.artifacts <= _MOST_BY_NINJA:
        _measure_ninja(bench, show, scenes)
        if "whole" in scenes and bench.artifacts == 1:
            show(bench.whole())
    if "header" in scenes and bench.kernels <= _MOST_WITH_A_HEADER:
        _measure_header(bench, show)
    if "farm" in scenes and 1 < bench.artifacts <= _MOST_ON_THE_FARM and find_spec("distributed"):
        show(bench.farm())
        show(bench.independent())


def _measure_ninja(bench: Bench, show: Callable[[Row], None], scenes: Sequence[str]) -> None:
    bench.write_ninja()
    bench.clean_ninja()
    cold = bench.ninja("cold")
    if "cold" in scenes:
        show(cold)
    if "null" in scenes:
        show(bench.ninja("null"))
    if "edit" in scenes:
        edit_source(bench.source)
        show(bench.ninja("edit"))
    if "local store" in scenes and shutil.which("ccache"):
        bench.clean_ninja()
        show(bench.ninja("local store"))


def _measure_header(bench: Bench, show: Callable[[Row], None]) -> None:
    """A header that all kernels of an artifact include."""
    root = bench.source.parents[2]
    header = root / "kernels" / "aiv" / "common.h"
    header.write_text("#pragma once\n", encoding="utf-8")
    for source in root.glob("kernels/*/*.cpp"):
        with source.open("a", encoding="utf-8") as file:
            file.write('#include "common.h"\n')
    bench.scons("header")
    header.write_text("#pragma once\ninline constexpr int edited = 1;\n", encoding="utf-8")
    show(bench.scons("header"))


def _nothing(_row: Row) -> None:
    """A row that nobody asked for."""


def main() -> int:
    """Measure and print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description="large and many artifacts")
    parser.add_argument("--kernels", type=int, nargs="*", default=[3, 50, 400, 2000], help="sizes of a single artifact")
    parser.add_argument("--artifacts", type=int, nargs="*", default=[1, 20, 200], help="numbers of small ones")
    parser.add_argument("--only", nargs="*", default=SCENES, choices=SCENES, help="what to show")
    parser.add_argument("--no-ninja", action="store_true", help="without the yardstick")
    options = parser.parse_args()
    ninja = not options.no_ninja and shutil.which("ninja") is not None
    sizes = [(kernels, 1) for kernels in options.kernels if 1 in options.artifacts or not options.artifacts]
    sizes += [(min(options.kernels), count) for count in options.artifacts if count > 1]
    print("| kernels | artifacts | what | by | seconds | processor s | actions | largest process, MB |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for kernels, artifacts in sizes:
        with tempfile.TemporaryDirectory(prefix="scale") as directory:
            measure(Bench(Path(directory), kernels, artifacts), lambda row: print(row, flush=True), options.only, ninja)
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
