"""The edit loop against its budgets, with ninja on the same commands as the yardstick.

    python -m benchmarks.edit_loop [--kernels 3 50 400] [--repeat 5]

For each size an artifact is generated, replayed once, and then measured: a replay with nothing to do, and the time
from an edit of one kernel to the verdict, by a new run of SCons and with ``WATCH=1``. The edit's budget is the compile
of that file, measured alone in the same run, plus a fixed overhead. ninja compiles, links and replays with the very
same command lines.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.generated import write_chain
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.rules.instances import Instances, missing_instances
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.options import parse_options
from pypto_build.rules.precompiled import Precompiled
from pypto_build.rules.units import compile_environment
from pypto_build.toolchain.host import find_compiler, host_recipe
from pypto_build.toolchain.recipe import Recipe, UnitRecipe

_REPOSITORY = Path(__file__).resolve().parents[1]
_NULL_BUDGET_S = {3: 0.3, 50: 0.3, 400: 0.6}
_EDIT_BUDGET_S = 0.6
_COLUMNS = (
    "kernels",
    "first build",
    "null replay",
    "budget",
    "compile alone",
    "edit to verdict",
    "overhead",
    "budget",
    "watched edit",
    "ninja null",
    "ninja edit",
)


@dataclass(frozen=True)
class Row:
    """Seconds, medians over the repeats."""

    kernels: int
    first: float
    null: float
    compile: float
    edit: float
    watched: float
    ninja_null: float
    ninja_edit: float

    @property
    def overhead(self) -> float:
        """What the loop adds to the compiler."""
        return self.edit - self.compile


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="the edit loop against its budgets")
    parser.add_argument("--kernels", type=int, nargs="+", default=[3, 50, 400])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--scons", default=f"{shlex.quote(sys.executable)} -m SCons", help="how scons is started")
    arguments = parser.parse_args()
    rows = []
    for kernels in arguments.kernels:
        with tempfile.TemporaryDirectory(prefix="edit_loop") as directory:
            print(f"measuring {kernels} kernels ...", file=sys.stderr, flush=True)
            rows.append(_measure(Path(directory), kernels, arguments.repeat, shlex.split(arguments.scons)))
    _print(rows)
    return 0


def _measure(directory: Path, kernels: int, repeat: int, scons: Sequence[str]) -> Row:
    artifact = write_chain(directory / "build_output", kernels)
    sconstruct = "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
    (directory / "SConstruct").write_text(sconstruct, encoding="utf-8")
    replay = [*scons, "-Q", "replay", f"JIT={artifact.name}"]
    first = _seconds(directory, replay)
    source = artifact / "kernels" / "aiv" / f"step_{kernels // 2}.cpp"
    null = _median(repeat, lambda: _seconds(directory, replay))
    entry = next(e for e in _commands(directory) if e["file"] == str(source))
    alone = _compile_words(entry, directory / "alone.o")
    compile_s = _median(repeat, lambda: _seconds(directory, alone))
    edit = _median(repeat, lambda: _edited(source, directory, replay))
    watched = _watched(source, directory, replay, repeat)
    output = _write_ninja(directory, artifact)
    ninja = ["ninja", "-C", str(output)]
    _seconds(directory, ninja)
    ninja_null = _median(repeat, lambda: _seconds(directory, ninja))
    ninja_edit = _median(repeat, lambda: _edited(source, directory, ninja))
    return Row(kernels, first, null, compile_s, edit, watched, ninja_null, ninja_edit)


def _edited(source: Path, directory: Path, command: Sequence[str]) -> float:
    _edit(source)
    return _seconds(directory, command)


def _watched(source: Path, directory: Path, replay: Sequence[str], repeat: int) -> float:
    """Median seconds from a save to the verdict, when a process waits for saves."""
    command = [*replay, "WATCH=1"]
    environment = _environment(directory)
    with subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True) as waiting:
        lines = iter(waiting.stdout or ())

        def edited() -> float:
            start = time.perf_counter()
            _edit(source)
            _await(lines, "[RUN] PASS")
            seconds = time.perf_counter() - start
            _await(lines, "[watch] ")
            return seconds

        _await(lines, "[watch] ")
        median = _median(repeat, edited)
        waiting.terminate()
    return median


def _await(lines: Iterator[str], beginning: str) -> None:
    if not any(line.startswith(beginning) for line in lines):
        raise SystemExit(f"scons WATCH=1 ended before {beginning!r}")


def _edit(source: Path) -> None:
    """An edit that changes the object and not the result, another one every time: nothing is found that was made
    before."""
    begin = 'asm(".pushsection .comment.edit; .long '
    text = source.read_text(encoding="utf-8").partition(begin)[0]
    source.write_text(f'{text}{begin}{time.time_ns() % (1 << 31)}; .popsection");\n', encoding="utf-8")


def _write_ninja(directory: Path, artifact: Path) -> Path:
    """A ninja build of the same artifact with the same commands, in a directory of its own."""
    scons_output = directory / "build" / "a2a3sim" / artifact.name
    output = directory / "ninja"
    shutil.copytree(scons_output, output, ignore=shutil.ignore_patterns("*.o", "*.so", "verdict.json", "actual"))
    link = _recipe()["aiv"].steps[-1]
    lines = ["rule run", "  command = $cmd", "  depfile = $depfile", "  deps = gcc", ""]
    binaries = []
    for entry in _commands(directory):
        relative = Path(entry["output"]).relative_to(scons_output)
        target = output / relative
        depfile = f"{target}.d"
        compile_words = [*_compile_words(entry, target), "-MD", "-MF", depfile]
        lines += [
            f"build {target}: run {entry['file']}",
            f"  cmd = {shlex.join(compile_words)}",
            f"  depfile = {depfile}",
        ]
        binary = target.with_suffix(".so")
        linker, *link_words = link.argv(str(target), str(binary))
        lines += [
            f"build {binary}: link {target}",
            f"  cmd = {shlex.join([linker, *_instances(entry), *link_words])}",
        ]
        binaries.append(str(binary))
    words = _replay_words(artifact, output, directory)
    data = [str(path) for path in sorted(artifact.glob("data/*/*.pt"))]
    lines += [f"build {output}/verdict.json: link {' '.join([*binaries, *data])}", f"  cmd = {shlex.join(words)}"]
    rules = ["rule link", "  command = $cmd", ""]
    (output / "build.ninja").write_text("\n".join([*rules, *lines, ""]), encoding="utf-8")
    return output


def _recipe() -> Recipe:
    return host_recipe(find_compiler(), PLATFORMS["a2a3sim"])


def _compile_words(entry: dict[str, Any], target: Path) -> list[str]:
    """What SCons runs for an entry of compile_commands.json, which has no precompiled header and leaves nothing out."""
    recipe, workspace = _recipe_of(entry), _workspace()
    aid = Precompiled(workspace, recipe, compile_environment(workspace)).ready() if recipe.main_header else None
    words = entry["arguments"][:-1]
    return [words[0], *(aid.words if aid else ()), *recipe.calling, *words[1:], str(target)]


def _instances(entry: dict[str, Any]) -> list[str]:
    """The instances of instructions that SCons linked the object of an entry with."""
    called, _ = missing_instances(Path(entry["output"]))
    workspace = _workspace()
    known = Instances(workspace, _recipe_of(entry), compile_environment(workspace), tuple)
    return [word for aid in (known.of(called) or () if called else ()) for word in aid.words]


def _recipe_of(entry: dict[str, Any]) -> UnitRecipe:
    return _recipe()["orchestration" if "/orchestration/" in entry["output"] else "aiv"]


@cache
def _workspace() -> Workspace:
    return Workspace(_REPOSITORY, parse_options({}), whole_graph=False)


def _replay_words(artifact: Path, output: Path, directory: Path) -> list[str]:
    from pypto_build.rules.embedded_runtime import module_path

    module = str(module_path(find_compiler()))
    words = [sys.executable, "-m", "pypto_build.replay", str(artifact), "--platform", "a2a3sim"]
    words += ["--build-dir", str(output), "--embedded", module]
    return ["env", f"PYTHONPATH={_REPOSITORY}", *words]


def _commands(directory: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((directory / "build" / "compile_commands.json").read_bytes())
    return entries


def _seconds(directory: Path, command: Sequence[str]) -> float:
    environment = _environment(directory)
    start = time.perf_counter()
    run = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if run.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{run.stdout}{run.stderr}")
    return seconds


def _environment(directory: Path) -> dict[str, str]:
    """This checkout's package, and a store of the workspace's own."""
    return {**os.environ, "PYTHONPATH": str(_REPOSITORY), "PYPTO_BUILD_STORE": str(directory / "store")}


def _median(repeat: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(repeat))


def _print(rows: Sequence[Row]) -> None:
    print("| " + " | ".join(_COLUMNS) + " |")
    print("|" + "---|" * len(_COLUMNS))
    for row in rows:
        budget = _NULL_BUDGET_S.get(row.kernels)
        cells = [row.kernels, row.first, row.null, budget if budget is not None else "", row.compile, row.edit]
        cells += [row.overhead, _EDIT_BUDGET_S, row.watched, row.ninja_null, row.ninja_edit]
        print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")


if __name__ == "__main__":
    sys.exit(main())
