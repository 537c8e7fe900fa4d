"""Runs a model's script unchanged, and adds a snapshot, records and a replay directory to PyPTO from outside.

pypto-build wrap [flags] -- python models/x.py -p a2a3

Nothing of the user's is edited: Python imports a ``sitecustomize`` of ours before the script, which hooks PyPTO's
`execute_compiled` and pypto-lib's `golden.run` and `golden.run_jit`. What the script compiles is an artifact with
data/ afterwards, which `pypto-build replay` takes. The exit status is the script's.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pypto_build import terminal
from pypto_build.facts.run_options import OF_ITS_RECORDS

_HOOKS = Path(__file__).with_name("wrapped")
# The options of a run that PyPTO has too.
_RECORDS = [option for option in OF_ITS_RECORDS.values() if option.fields]
# The level of a flag without value, where it differs from a replay's: a model's script marks no tensors for dumping.
_BARE = {"DUMP": 2}


class _Wrong(Exception):
    """An invalid flag; ``str()`` is one line."""


@terminal.escaping()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the script's exit status, or 2 for wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    flags, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    options = _parser().parse_args(flags)
    try:
        if not command:
            raise _Wrong("pypto-build wrap: no command; give it after '--': pypto-build wrap -- python x.py -p a2a3sim")
        job = _job(options)
    except _Wrong as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="pypto-wrap-") as scratch:
        job["report"] = str(Path(scratch, "report"))
        try:
            status = subprocess.run(command, env=_environment(job, options.build_output), check=False).returncode
        except OSError as error:
            print(f"{command[0]}: cannot be run: {error.strerror}; correct the command after '--'", file=sys.stderr)
            return 2
        _tell(_read(Path(job["report"])), status)
    return status if status >= 0 else 128 - status


def _job(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the hooks."""
    for flag in ("runtime_dir", "golden_data"):
        directory = getattr(options, flag)
        if directory and not Path(directory).is_dir():
            raise _Wrong(f"--{flag.replace('_', '-')} {directory}: no such directory; give one that a run left")
    if options.compile_only and options.runtime_dir:
        raise _Wrong("--compile-only: contradicts --runtime-dir, which compiles nothing; leave one out")
    return {
        "records": [(level, option.fields) for option in _RECORDS if (level := getattr(options, option.name))],
        "runtime_dir": os.path.abspath(options.runtime_dir) if options.runtime_dir else "",
        "golden_data": os.path.abspath(options.golden_data) if options.golden_data else "",
        "compile_only": options.compile_only,
    }


def _environment(job: dict[str, Any], build_output: str) -> dict[str, str]:
    paths = [str(_HOOKS), *filter(None, [os.environ.get("PYTHONPATH")])]
    more = {"PYTHONPATH": os.pathsep.join(paths), "PYPTO_BUILD_WRAP": json.dumps(job)}
    more |= {"PYPTO_PROG_BUILD_DIR": os.path.abspath(build_output)} if build_output else {}
    return {**os.environ, **more}


def _read(report: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()] if report.exists() else []


def _tell(events: list[dict[str, Any]], status: int) -> None:
    """Print the artifacts and data that exist now, and the errors."""
    if not events:
        print(
            "[wrap] nothing was recorded: the command started no Python process, or started it with -I, -S or -E",
            file=sys.stderr,
        )
    for name in dict.fromkeys(event["missing"] for event in events if "missing" in event):
        print(f"[wrap] this version of PyPTO has no {name}, which is therefore not recorded", file=sys.stderr)
    for name in dict.fromkeys(event["other"] for event in events if "other" in event):
        print(
            f"[wrap] --runtime-dir belongs to another program than '{name}', which was compiled and run as usual",
            file=sys.stderr,
        )
    for directory in dict.fromkeys(event["unnamed"] for event in events if "unnamed" in event):
        print(
            f"[wrap] {directory}: no snapshot was taken, because no compiled_meta.json names the parameters",
            file=sys.stderr,
        )
    ran: dict[str, dict[str, Any]] = {}
    for event in events:
        if "ran" in event:
            before = ran.setdefault(event["ran"], {"platform": None, "snapshot": False, "environment": {}})
            before["environment"] |= event["environment"]
            before["platform"] = before["platform"] or event["platform"]
            before["snapshot"] = before["snapshot"] or event["snapshot"]
    if events and not ran:
        print("[wrap] the script did not run a PyPTO program", file=sys.stderr)
    for directory, what in ran.items():
        platform = f" -p {shlex.quote(what['platform'])}" if what["platform"] else ""
        print(f"[wrap] {_snapshot(Path(directory), what['snapshot'], status)}")
        settings = "".join(f"{name}={shlex.quote(value)} " for name, value in what["environment"].items())
        print(f"[wrap]   {settings}pypto-build replay {shlex.quote(directory)}{platform}")


def _snapshot(directory: Path, ours: bool, status: int) -> str:
    """Describe the data of an artifact. Outputs of the run become the golden if the script ended well."""
    actual, golden = directory / "data" / "actual", directory / "data" / "out"
    if ours and status == 0:
        shutil.rmtree(golden, ignore_errors=True)
        actual.rename(golden)
        return f"{directory}: data/in, and in data/out what this run gave, since the script ended well"
    if ours:
        return f"{directory}: data/in, and in data/actual what this run gave; no golden, since the script failed"
    parts = [part for part in ("data/in", "data/out") if (directory / part).is_dir()]
    return f"{directory}: {' and '.join(parts) or 'no data'}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pypto-build wrap",
        description=(__doc__ or "").splitlines()[0],
        usage="pypto-build wrap [flags] -- COMMAND ...",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--runtime-dir", default="", metavar="DIR", help="run this artifact instead of what the script compiles")
    add("--golden-data", default="", metavar="DIR", help="a directory with in/ and out/ (scripts of pypto-lib)")
    add("--compile-only", action="store_true", help="compile and do not run (scripts of pypto-lib)")
    add("--build-output", default="", metavar="DIR", help="where PyPTO compiles into (build_output)")
    for option in _RECORDS:
        flags = dict.fromkeys((*option.scene_flags, *option.flags))
        if option.kind.type is bool:
            add(*flags, dest=option.name, action="store_true")
        else:
            bare = _BARE.get(option.name, option.bare)
            add(*flags, dest=option.name, nargs="?", type=int, const=bare, default=0, metavar="LEVEL", help=f"({bare})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
