"""The edit loop against its budgets, with ninja on the same commands as the yardstick.

    python -m benchmarks.edit_loop [--kernels 3 50 400 2000] [--repeat 9]

For each size an artifact is generated and replayed once. Then two things are measured: a replay with nothing to do,
and the time from an edit of one kernel to the verdict. There are four rows: ``scons``, which hands over to the resident
process from the second command on; ``scons`` alone (``PYPTO_BUILD_SERVER=0``); ``pypto-build``; and ``WATCH=1``.
ninja compiles, links and replays with the very same command lines. Then an artifact of three kernels as the compiler
writes them: an edit of each kind of file, of a flag and of the data.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.generated import write_chain
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.rules.instances import Instances, missing_instances
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.options import parse_options
from pypto_build.rules.precompiled import Precompiled
from pypto_build.rules.units import compile_environment
from pypto_build.toolchain.host import Recipe, UnitRecipe, find_compiler, host_recipe

_REPOSITORY = Path(__file__).resolve().parents[1]
# Seconds by kernels; those of edits are beyond the compile of an empty file, which is measured too.
_BUDGETS = {
    3: (0.20, 0.20, 0.06, 0.45, 0.45, 0.20, 0.20),
    50: (0.22, 0.22, 0.07, 0.47, 0.47, 0.20, 0.20),
    400: (0.35, 0.35, 0.15, 0.60, 0.60, 0.25, 0.25),
    2000: (0.80, 0.80, 0.50, 1.00, 1.00, 0.40, 0.40),
}
_COLUMNS = (
    "kernels",
    "first build",
    "compile alone",
    "null",
    "null, alone",
    "null, pypto-build",
    "edit",
    "edit, alone",
    "edit, pypto-build",
    "edit, WATCH",
    "ninja null",
    "ninja edit",
    "WATCH / ninja",
)
_EXAMPLE = "_jit_vector_dag"


@dataclass(frozen=True)
class Row:
    """Seconds, medians over the repeats."""

    kernels: int
    first: float
    compile: float
    null: float
    null_alone: float
    null_resident: float
    edit: float
    edit_alone: float
    edit_resident: float
    watched: float
    ninja_null: float
    ninja_edit: float


def main() -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description="the edit loop against its budgets")
    parser.add_argument("--kernels", type=int, nargs="*", default=[3, 50, 400])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--scons", default=f"{shlex.quote(sys.executable)} -m SCons", help="how scons is started")
    arguments = parser.parse_args()
    scons = shlex.split(arguments.scons)
    rows = []
    with tempfile.TemporaryDirectory(prefix="edit_loop") as base:
        os.environ["XDG_RUNTIME_DIR"] = base  # the resident process of this benchmark alone
        for kernels in arguments.kernels:
            print(f"measuring {kernels} kernels ...", file=sys.stderr, flush=True)
            directory = Path(base, str(kernels))
            directory.mkdir()
            rows.append(_measure(directory, kernels, arguments.repeat, scons))
            shutil.rmtree(directory)
        empty = _empty_compile(Path(base), arguments.repeat)
        _print(rows, empty)
        print("measuring kinds of edits ...", file=sys.stderr, flush=True)
        directory = Path(base, "kinds")
        directory.mkdir()
        _print_kinds(_measure_kinds(directory, arguments.repeat, scons))
        _seconds(directory, [*_RESIDENT, "shutdown"])
    return 0


def _measure(directory: Path, kernels: int, repeat: int, scons: Sequence[str]) -> Row:
    artifact = write_chain(directory / "build_output", kernels)
    replay = [*scons, "-Q", "replay", f"JIT={artifact.name}"]
    write_sconstruct(directory)
    first = _seconds(directory, replay)
    source = artifact / "kernels" / "aiv" / f"step_{kernels // 2}.cpp"
    entry = next(e for e in _commands(directory) if e["file"] == str(source))
    alone = _compile_words(entry, directory / "alone.o")
    compile_s = _median(repeat, lambda: _seconds(directory, alone))
    null_alone = _median(repeat, lambda: _seconds(directory, [*_ALONE, *replay]))
    edit_alone = _median(repeat, lambda: _edited(source, directory, [*_ALONE, *replay]))
    _await_server(directory, replay)
    null = _median(repeat, lambda: _seconds(directory, replay))
    edit = _median(repeat, lambda: _edited(source, directory, replay))
    watched = _watched(source, directory, replay, repeat)
    resident = _resident(artifact, directory)
    null_resident = _median(repeat, lambda: _seconds(directory, resident))
    edit_resident = _median(repeat, lambda: _edited(source, directory, resident))
    output = write_ninja(directory, artifact)
    ninja = ["ninja", "-C", str(output)]
    _seconds(directory, ninja)
    ninja_null = _median(repeat, lambda: _seconds(directory, ninja))
    ninja_edit = _median(repeat, lambda: _edited(source, directory, ninja))
    nulls, edits = (null, null_alone, null_resident), (edit, edit_alone, edit_resident)
    return Row(kernels, first, compile_s, *nulls, *edits, watched, ninja_null, ninja_edit)


_ALONE = ("env", "PYPTO_BUILD_SERVER=0")
_RESIDENT = (sys.executable, "-m", "pypto_build.resident.client")


def _resident(artifact: Path, directory: Path) -> list[str]:
    """The command that the resident process serves, which is there."""
    command = [*_RESIDENT, "replay", str(artifact)]
    _await_server(directory, command)
    return command


def _await_server(directory: Path, command: Sequence[str]) -> None:
    """Have a resident process, and one of it that stands for the command."""
    _seconds(directory, command)
    for _ in range(100):
        if any(path.suffix != ".pid" for path in Path(os.environ["XDG_RUNTIME_DIR"], "pypto-build").glob("*")):
            break
        time.sleep(0.1)
    for _ in range(2):
        _seconds(directory, command)
        time.sleep(1.0)


def write_sconstruct(directory: Path) -> None:
    text = "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
    (directory / "SConstruct").write_text(text, encoding="utf-8")


def _empty_compile(directory: Path, repeat: int) -> float:
    """Seconds that the compile of an empty kernel takes with the precompiled header."""
    recipe, workspace = _recipe()["aiv"], _workspace()
    source = directory / "empty.cpp"
    source.write_text(f"#include <{recipe.main_header}>\n", encoding="utf-8")
    aid = Precompiled(workspace, recipe, compile_environment(workspace)).ready()
    words = recipe.compile_argv(str(source), str(directory / "empty.o"))
    command = [words[0], *(aid.words if aid else ()), *words[1:]]
    return _median(repeat, lambda: _seconds(directory, command))


# An edit of each kind


def _measure_kinds(directory: Path, repeat: int, scons: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Seconds from an edit to the verdict by what is edited: by `scons`, by it alone, and by `pypto-build`."""
    artifact = directory / "build_output" / _EXAMPLE
    shutil.copytree(_REPOSITORY / "examples" / "artifacts" / _EXAMPLE, artifact)
    header = artifact / "kernels" / "aiv" / "own.h"
    header.write_text("#pragma once\n", encoding="utf-8")
    kernel = artifact / "kernels" / "aiv" / "kernel_add.cpp"
    other = artifact / "kernels" / "aiv" / "kernel_mul.cpp"
    other.write_text(f'{other.read_text(encoding="utf-8")}\n#include "own.h"\n', encoding="utf-8")
    write_sconstruct(directory)
    replay = [*scons, "-Q", "replay", f"JIT={artifact.name}"]
    alone = [*_ALONE, *replay]
    _await_server(directory, replay)
    resident = _resident(artifact, directory)
    number = itertools.count()

    def nothing(_command: list[str]) -> list[str]:
        return _command

    def in_text(path: Path) -> Callable[[list[str]], list[str]]:
        def edit(command: list[str]) -> list[str]:
            edit_source(path)
            return command

        return edit

    def in_module(command: list[str]) -> list[str]:
        module = artifact / "ptoas" / "kernel_add.pto"
        text = module.read_text(encoding="utf-8").partition("// edit")[0]
        wide = " " * (next(number) % 7 + 1)
        module.write_text(f"{text}// edit{wide}{time.time_ns()}\n", encoding="utf-8")
        return command

    def in_data(command: list[str]) -> list[str]:
        golden = next((artifact / "data" / "out").glob("*.pt"))
        data = bytearray(golden.read_bytes())
        position = data.index(b"FB") if b"FB" in data else len(data) - 1  # padding in the archive, which nobody reads
        data[position + 2] = next(number) % 256
        golden.write_bytes(data)
        return command

    def in_flags(command: list[str]) -> list[str]:
        return [*command, f"KERNEL_FLAGS=-DEDIT={time.time_ns()}"]

    kinds = {
        "nothing": nothing,
        "a kernel": in_text(kernel),
        "a header of one kernel": in_text(header),
        "the orchestration": in_text(next((artifact / "orchestration").glob("*.cpp"))),
        "a .pto module": in_module,
        "a flag of all kernels": in_flags,
        "a golden": in_data,
    }
    return {
        kind: tuple(_median(repeat, partial(_after, edit, loop, directory)) for loop in (replay, alone, resident))
        for kind, edit in kinds.items()
    }


def _edited(source: Path, directory: Path, command: Sequence[str]) -> float:
    edit_source(source)
    return _seconds(directory, command)


def _watched(source: Path, directory: Path, replay: Sequence[str], repeat: int) -> float:
    """Median seconds from a save to the verdict, when a process waits for saves."""
    command = [*replay, "WATCH=1"]
    environment = _environment(directory)
    with subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True) as waiting:
        lines = iter(waiting.stdout or ())

        def edited() -> float:
            start = time.perf_counter()
            edit_source(source)
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


def edit_source(source: Path) -> None:
    """An edit that changes the object and not the result, another one every time: nothing is found that was made
    before."""
    begin = 'asm(".pushsection .comment.edit; .long '
    text = source.read_text(encoding="utf-8").partition(begin)[0]
    source.write_text(f'{text}{begin}{time.time_ns() % (1 << 31)}; .popsection");\n', encoding="utf-8")


def write_ninja(directory: Path, artifact: Path, *, plain: int = 0) -> Path:
    """A ninja build of the same artifact with the same commands, in a directory of its own.

    With ``plain`` it is one of so many kernels at most, each compiled by itself: no precompiled header, no shared
    instances. Where that is not all of them, nothing is replayed.
    """
    scons_output = directory / "build" / "a2a3sim" / artifact.name
    output = directory / ("whole" if plain else "ninja")
    shutil.copytree(scons_output, output, ignore=shutil.ignore_patterns("*.o", "*.so", "verdict.json", "actual"))
    link = _recipe()["aiv"].steps[-1]
    lines = ["rule run", "  command = $cmd", "  depfile = $depfile", "  deps = gcc", ""]
    binaries = []
    own = [e for e in _commands(directory) if Path(e["output"]).is_relative_to(scons_output)]
    kernels = [entry for entry in own if "/orchestration/" not in entry["output"]]
    sampled = 0 < plain < len(kernels)
    for entry in kernels[:plain] if sampled else own:
        relative = Path(entry["output"]).relative_to(scons_output)
        target = output / relative
        depfile = f"{target}.d"
        words = [*entry["arguments"][:-1], str(target)] if plain else _compile_words(entry, target)
        compile_words = [*words, "-MD", "-MF", depfile]
        lines += [
            f"build {target}: run {entry['file']}",
            f"  cmd = {shlex.join(compile_words)}",
            f"  depfile = {depfile}",
        ]
        binary = target.with_suffix(".so")
        linker, *link_words = link.argv(str(target), str(binary))
        instances = [] if plain else _instances(entry)
        lines += [
            f"build {binary}: link {target}",
            f"  cmd = {shlex.join([linker, *instances, *link_words])}",
        ]
        binaries.append(str(binary))
    if not sampled:
        words = _replay_words(artifact, output, directory)
        data = [str(path) for path in sorted(artifact.glob("data/*/*.pt"))]
        lines += [f"build {output}/verdict.json: link {' '.join([*binaries, *data])}", f"  cmd = {shlex.join(words)}"]
    rules = ["rule link", "  command = $cmd", ""]
    (output / "build.ninja").write_text("\n".join([*rules, *lines, ""]), encoding="utf-8")
    return output


def _recipe() -> Recipe:
    return host_recipe(find_compiler(), PLATFORMS["a2a3sim"])


def _compile_words(entry: dict[str, Any], target: Path) -> list[str]:
    """Return the command that SCons runs for an entry of compile_commands.json, which has no precompiled header."""
    recipe, workspace = _recipe_of(entry), _workspace()
    aid = Precompiled(workspace, recipe, compile_environment(workspace)).ready() if recipe.main_header else None
    words = entry["arguments"][:-1]
    return [words[0], *(aid.words if aid else ()), *recipe.calling, *words[1:], str(target)]


def _instances(entry: dict[str, Any]) -> list[str]:
    """The instances of instructions that SCons linked the object of an entry with."""
    called, _ = missing_instances(Path(entry["output"]))
    workspace = _workspace()
    instances = Instances(workspace, _recipe_of(entry), compile_environment(workspace), tuple)
    return [word for aid in (instances.of(called) or () if called else ()) for word in aid.words]


def _recipe_of(entry: dict[str, Any]) -> UnitRecipe:
    return _recipe()["orchestration" if "/orchestration/" in entry["output"] else "aiv"]


@cache
def _workspace() -> Workspace:
    return Workspace(_REPOSITORY, parse_options({}), whole_graph=False)


def _replay_words(artifact: Path, output: Path, directory: Path) -> list[str]:
    from pypto_build.rules.machinery.runtime_module import module_path

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
    more = {"PYTHONPATH": str(_REPOSITORY), "PYPTO_BUILD_STORE": str(directory / "store"), "PYPTO_BUILD_SERVER": "1"}
    return {**os.environ, **more}


def _median(repeat: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(repeat))


def _after(edit: Callable[[list[str]], list[str]], command: list[str], directory: Path) -> float:
    return _seconds(directory, edit(command))


def _print(rows: Sequence[Row], empty: float) -> None:
    print(f"compile of an empty kernel with the precompiled header: {empty:.3f} s")
    print("| " + " | ".join(_COLUMNS) + " |")
    print("|" + "---|" * len(_COLUMNS))
    for row in rows:
        budgets = _BUDGETS.get(row.kernels)
        timed = (row.null, row.null_alone, row.null_resident, row.edit, row.edit_alone, row.edit_resident, row.watched)
        limits = [""] * len(timed)
        if budgets:
            beyond = (0.0, 0.0, 0.0, empty, empty, empty, empty)
            limits = [f" ({limit + more:.2f})" for limit, more in zip(budgets, beyond, strict=True)]
        cells = [str(row.kernels), f"{row.first:.1f}", f"{row.compile:.2f}"]
        cells += [f"{seconds:.2f}{limit}" for seconds, limit in zip(timed, limits, strict=True)]
        cells += [f"{row.ninja_null:.2f}", f"{row.ninja_edit:.2f}", f"{row.watched / row.ninja_edit:.2f}"]
        print("| " + " | ".join(cells) + " |")


def _print_kinds(kinds: Mapping[str, tuple[float, ...]]) -> None:
    print(f"\n| edited, in {_EXAMPLE} | scons | scons, alone | pypto-build |")
    print("|---|---|---|---|")
    for kind, ways in kinds.items():
        print(f"| {kind} | {' | '.join(f'{seconds:.2f}' for seconds in ways)} |")


if __name__ == "__main__":
    sys.exit(main())
