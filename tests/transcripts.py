"""Records what every verb says and writes for example programs, so that a rewrite can be compared with what was before.

`python -m tests.transcripts DIRECTORY [--only PATTERN]` writes a file for each program and verb: words, exit status,
findings, and files that were written besides. Times, addresses, process numbers and paths are masked.
`python -m tests.transcripts --compare BEFORE AFTER` prints the differences, and exits with 1 if there are some.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_TEXTS = frozenset({".json", ".sarif", ".txt", ".md", ".csv", ".dot", ".py", ".cpp", ".pto"})
#: What is measured or named anew in each run, and what stands for it.
_MASKS = tuple(
    (re.compile(pattern, re.MULTILINE), text)
    for pattern, text in (
        (r"\b0x[0-9a-f]{6,16}\b", "0xADDRESS"),
        (r"\b\d{14,20}\b", "ADDRESS"),
        (r"\b\d+\.\d\b", "N"),
        (r"-?\b\d[\d,]*(?:\.\d+)?(?: \([\d.,]+ to [\d.,]+\))? ?(us|ms|ns|s|%)(?!\w)", r"N \1"),
        (
            r'("(?:\w*_(?:us|ns|s|bytes_used)|dur|ts|pid|start|end|time|duration|median|least|most)": ?)-?[\d.e+-]+',
            r"\1N",
        ),
        (r"\b20\d\d-\d\d-\d\d[T ][\d:.+]+Z?", "DATE"),
        (r"^\[cpp->\.so\].*\n", ""),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"\(pid \d+\)", "(pid N)"),
        (r"  +", "  "),
        (r"\s+$", "\n"),
    )
)
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYPTO_BUILD_SERVER": "no", "COLUMNS": "120"}
_DAG, _ADD = "examples/artifacts/_jit_vector_dag", "kernels/aiv/kernel_add.cpp"
_PIPELINE, _SEND = "examples/distributed/_jit_dist_pipeline", "next_levels/stage_one/kernels/aiv/scale_and_send.cpp"
_BODY = "kernel_entry(__gm__ int64_t* args) {"


@dataclass(frozen=True)
class Program:
    """An artifact, or a file of scene tests, with texts replaced: (file, old, new)."""

    name: str
    source: str
    edits: tuple[tuple[str, str, str], ...] = ()

    def copy(self, into: Path) -> None:
        """Write the program below a directory."""
        source = ROOT / self.source.partition("::")[0]
        if source.is_dir():
            shutil.copytree(source, into / source.name)
        else:
            shutil.copytree(source.parent, into, dirs_exist_ok=True)
        for file, old, new in self.edits:
            text = (into / source.name / file).read_text()
            if old not in text:
                raise SystemExit(f"{self.name}: {file} has no {old!r}")
            (into / source.name / file).write_text(text.replace(old, new, 1))


@dataclass(frozen=True)
class Command:
    """A verb with options. `files` of its build directory, or of the program's, are recorded besides findings."""

    verb: str
    options: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The verb with the first option if that tells two commands apart."""
        word = next((option for option in self.options if option.startswith("TASK=")), "")
        return f"{self.verb}.{word}" if word else self.verb


def _examples() -> Iterator[Program]:
    for path in sorted(ROOT.glob("examples/*/_jit_*")):
        yield Program(path.name, str(path.relative_to(ROOT)))


PROGRAMS = (
    *_examples(),
    Program("wrong_value", _DAG, ((_ADD, "TADD(", "TSUB("),)),
    Program(
        "unordered", _DAG, (("orchestration/vector_dag.cpp", "params_t1.add_input(c)", "params_t1.add_no_dep(c)"),)
    ),
    Program("crash", _DAG, ((_ADD, _BODY, f"{_BODY} *reinterpret_cast<volatile int *>(args[0] * 0 + 8) = 1;"),)),
    Program("endless", _DAG, ((_ADD, _BODY, f"{_BODY} for (volatile int x = 0; true;) x = x;"),)),
    Program("crash_of_a_rank", _PIPELINE, ((_SEND, _BODY, f"{_BODY} *reinterpret_cast<volatile int *>(8) = 1;"),)),
    Program("scene", "tests/interop/scenes/scene_pairs.py"),
)
_LIMIT = ("TIMEOUT=20",)
COMMANDS = (
    Command("replay", ("FORCE=1", *_LIMIT), ("verdict.json",)),
    Command("hazards", _LIMIT),
    Command("lint"),
    Command("diverge", _LIMIT),
    Command("why", ("AT=0,0", *_LIMIT)),
    Command("deps", ("EXPORT=dot", *_LIMIT), ("dfx_outputs/deps.json", "*.dot", "dfx_outputs/*.dot")),
    Command("deps", ("TASK=2", *_LIMIT)),
    Command("dump", ("EXPORT=txt", *_LIMIT), ("dump/*", "dfx_outputs/args_dump/*")),
    Command("dump", ("TASK=1", *_LIMIT)),
    Command("flaky", _LIMIT),
    Command("report", _LIMIT, ("report.html",)),
    Command("triage", _LIMIT),
    Command("hang"),
    Command("extract", ("TASK=0", "BUILD_OUTPUT=@/extracted", *_LIMIT), ("@/extracted/*/*",)),
    Command("step", ("TASK=0", "SCRIPT=@/script", *_LIMIT)),
    Command("pack", _LIMIT),
    Command("passes"),
    Command("torch", (), ("torch/*",)),
    Command("scene_test"),
)


def _masked(text: str, scratch: Path) -> str:
    for path, name in ((scratch, "SCRATCH"), (ROOT, "ROOT"), (Path.home(), "HOME")):
        text = text.replace(str(path), name)
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


def _content(path: Path, scratch: Path) -> str:
    if path.suffix == ".html":
        return f"{len(path.read_text().splitlines())} lines\n"
    if path.suffix in _TEXTS:
        return _masked(path.read_text(errors="replace"), scratch)
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def record(program: Program, command: Command, scratch: Path) -> str:
    """Run the command on a program in `scratch`, and return its transcript."""
    name, *case = program.source.split("::")
    subject = scratch / "program" / Path(name).name
    build = scratch / "build"
    options = [option.replace("@", str(scratch)) for option in command.options]
    words = [sys.executable, "-m", "pypto_build.cli", command.verb, "::".join((str(subject), *case)), *options]
    words += [f"BUILD_DIR={build}", "PLATFORM=a2a3sim"]
    shutil.rmtree(build / "findings", ignore_errors=True)
    for path in build.glob("*/*/findings/*"):
        path.unlink()
    done = subprocess.run(
        words, cwd=scratch, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=_ENVIRONMENT
    )
    parts = [f"exit status {done.returncode}\n", "--- out\n", done.stdout, "\n--- err\n", done.stderr]
    files = [path for name in ("findings/*.json", *command.files) for path in _files(name, scratch)]
    text = _masked("".join(parts), scratch)
    return text + "".join(f"\n--- {_masked(str(path), scratch)}\n{_content(path, scratch)}" for path in files)


def _files(name: str, scratch: Path) -> list[Path]:
    pattern = name.removeprefix("@/") if name.startswith("@/") else f"build/*/*/{name}"
    return sorted(path for path in scratch.glob(pattern) if path.is_file())


def _record_all(directory: Path, only: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        chosen = [command for command in COMMANDS if re.search(only, f"{program.name}.{command.name}")]
        if not chosen:
            continue
        with tempfile.TemporaryDirectory(prefix="transcripts") as scratch:
            program.copy(Path(scratch, "program"))
            Path(scratch, "script").write_text("next\nnext\nwhere\n")
            for command in chosen:
                text = record(program, command, Path(scratch))
                (directory / f"{program.name}.{command.name}.txt").write_text(text)
                print(program.name, command.name, text.partition("\n")[0], flush=True)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _compare(before: Path, after: Path) -> int:
    """Print the differences between two directories; return how many transcripts differ."""
    count = 0
    for name in sorted({path.name for directory in (before, after) for path in directory.glob("*.txt")}):
        old, new = (_lines(directory / name) for directory in (before, after))
        lines = list(difflib.unified_diff(old, new, str(before / name), str(after / name), lineterm="", n=1))
        count += bool(lines)
        print(*lines, sep="\n", end="\n" if lines else "")
    print(f"{count} transcripts differ")
    return count


def main() -> int:
    """Record or compare, as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.transcripts", description=__doc__)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="record what this regular expression finds in PROGRAM.VERB")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    arguments = parser.parse_args()
    if arguments.compare:
        return int(_compare(*arguments.compare) > 0)
    if arguments.directory is None:
        parser.error("name a directory, or --compare two")
    _record_all(arguments.directory, arguments.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
