"""`python -m pypto_build.compiler.pypto PROGRAM.py --output DIR`: compile a program with PyPTO itself.

    --python EXE        the interpreter that has PyPTO; default this one
    --platform P        what the artifact is for; the program itself tells PyPTO (its RunConfig)
    --dump-passes       let PyPTO dump its passes, and take its passes_dump/ too

The program runs in a process of its own as if by hand, but no kernel is executed. The arguments it passes become
`data/in`, the tensors it compares an output with `data/out`. Several compiled programs become sub-builds, next_levels/.
Prints the changed files. Exit status 0, 1 when the program cannot be compiled, 2 for wrong usage or without PyPTO.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact.compiled_files import COMPILED_FILES_NAME
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.positions import SourcePosition

from .errors import CompileError
from .write import files_document, write_files

_PROCESS = Path(__file__).with_name("pypto_process.py")
_LEFT_OUT = ("report", "cache", "dfx_outputs")
_STAMP = re.compile(r"_\d{8}_\d{6}$")


class NoPypto(CompileError):
    """The interpreter is missing, or has no PyPTO."""


def compile_with_pypto(
    program: str, output: Path, python: str, platform: str, *, dump_passes: bool = False
) -> list[str]:
    """Make `output` PyPTO's compilation of `program`; returns the paths that changed. Raises CompileError."""
    if not Path(program).is_file():
        raise CompileError(SourcePosition(program), "no such file", "give the file of a PyPTO program")
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        build = Path(directory, "build")
        build.mkdir()
        report_ = _run(program, build, report, python, dump_passes)
        roots = [Path(path) for path in report_["directories"]]
        files: dict[str, bytes] = {}
        for root in roots:
            prefix = f"next_levels/{_STAMP.sub('', root.name).removeprefix('_jit_')}/" if len(roots) > 1 else ""
            _check_platform(program, root, platform)
            files |= {prefix + name: data for name, data in _files(root, dump_passes)}
    if dump_passes and not any("passes_dump" in Path(name).parts for name in files):
        print(f"[pypto] note: the PyPTO of {python} wrote no passes_dump/", flush=True)
    beside = Path(program).parent
    here = beside.resolve()
    imported = [str(beside / Path(path).resolve().relative_to(here)) for path in report_["sources"]]
    files[COMPILED_FILES_NAME] = files_document(program, [program, *imported], files)
    return write_files(output, files)


def _run(program: str, build: Path, report: Path, python: str, dump_passes: bool) -> dict[str, list[str]]:
    position = SourcePosition(program)
    try:
        process = subprocess.run(
            [python, str(_PROCESS), *(["--dump-passes"] if dump_passes else []), program, str(build), str(report)],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    except OSError as error:
        raise NoPypto(
            SourcePosition(python),
            f"cannot be run: {error.strerror or error}",
            "name the Python interpreter with PYTHON=",
        ) from None
    last = (process.stderr.strip().splitlines() or [""])[-1]
    if process.returncode == 3:
        hint = "install PyPTO for this interpreter (pip install pypto), or name another interpreter with PYTHON="
        raise NoPypto(position, f"PyPTO cannot be imported: {last}", hint)
    if not report.exists():
        raise CompileError(position, f"PyPTO's process ended with status {process.returncode}: {last}")
    report_ = json.loads(report.read_text(encoding="utf-8"))
    stopped = report_.pop("stopped")
    if not report_["directories"]:
        if stopped.startswith(f"{program}:"):
            file, line, message = stopped.split(":", 2)
            raise CompileError(SourcePosition(file, int(line)), message.strip())
        raise CompileError(
            position,
            stopped or "compiles nothing when it is run",
            ('call the compiled function under `if __name__ == "__main__":`'),
        )
    if stopped:
        print(f"[pypto] note: the program stopped after it had compiled: {stopped}", flush=True)
    return {key: list(value) for key, value in report_.items()}


def _check_platform(program: str, root: Path, platform: str) -> None:
    try:
        compiled_for = str(json.loads((root / "compiled_meta.json").read_text(encoding="utf-8"))["platform"])
    except (OSError, ValueError, KeyError):
        return
    if compiled_for.removesuffix("sim") != platform.removesuffix("sim"):
        raise CompileError(
            SourcePosition(program),
            f"the program compiles for {compiled_for}, but the platform is {platform}",
            f"use PLATFORM={compiled_for}, or change RunConfig in the program",
        )


def _files(root: Path, dump_passes: bool) -> list[tuple[str, bytes]]:
    """Return the files that PyPTO wrote, except records of the compilation itself."""
    left_out = _LEFT_OUT if dump_passes else (*_LEFT_OUT, "passes_dump")
    files = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and name.parts[0] not in left_out and path.suffix not in (".so", ".o", ".pyc", ".lock"):
            files.append((name.as_posix(), path.read_bytes()))
    return files


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.compiler.pypto",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", metavar="PROGRAM.py")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--platform", choices=tuple(PLATFORMS), default="a2a3sim")
    parser.add_argument("--python", default=sys.executable, metavar="EXE")
    parser.add_argument("--dump-passes", action="store_true")
    args = parser.parse_args(argv)
    try:
        changed = compile_with_pypto(
            args.program, args.output, args.python, args.platform, dump_passes=args.dump_passes
        )
    except CompileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, NoPypto) else 1
    except OSError as error:
        print(f"error: {args.output}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    for path in changed:
        print(f"[pypto] wrote {args.output / path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
