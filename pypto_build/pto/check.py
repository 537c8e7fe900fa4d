"""Checks .pto files and prints the errors, and the rules of the device that they break, one line each.

python -m pypto_build.pto.check FILE… [--platform a2a3|a5|a2a3sim|a5sim] [--rules show|error|off]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import RULES, RULES_ERROR, RULES_OFF, RULES_SHOW

from .checks import check_module
from .errors import PtoError
from .parser import parse_file


def main(argv: list[str] | None = None) -> int:
    """Return 0 if the assembler accepts all files, 1 if not, 2 for wrong usage.

    A rule of the device that the assembler does not check fails the command with ``--rules error`` only.
    """
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.pto.check", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a module, or an artifact's directory")
    parser.add_argument("--platform", default="", choices=tuple(PLATFORMS), help="default: what each module names")
    parser.add_argument("--rules", default=RULES_SHOW, choices=RULES, help="broken rules of the device: show (default)")
    options = parser.parse_args(argv)
    errors: list[PtoError] = []
    modules = _modules(options.files)
    for path in modules:
        try:
            errors += check_module(parse_file(path), options.platform)
        except PtoError as error:  # noqa: PERF203
            errors.append(error)
    errors = [error for error in errors if not (error.is_rule and options.rules == RULES_OFF)]
    for message in errors:
        print(message)
    broken = sum(error.is_rule for error in errors)
    if len(errors) == broken:
        rules = f"{broken} device rule{'' if broken == 1 else 's'} broken" if broken else "nothing found"
        print(f"{len(modules)} module{'' if len(modules) == 1 else 's'}, {rules}")
    return 1 if len(errors) > broken or (broken and options.rules == RULES_ERROR) else 0


def _modules(paths: list[Path]) -> list[Path]:
    """Return the files in ``paths``, and the modules of the artifacts there, compiled with or without ptoas."""
    return [module for path in paths for module in (modules_of(path) if path.is_dir() else [path])]


def modules_of(artifact: Path) -> list[Path]:
    """Return the modules of an artifact, by name: in ``ptoas/``, or in ``kernels/`` if ptoas was skipped."""
    return sorted(artifact.glob("ptoas/*.pto")) or sorted(artifact.glob("kernels/**/*.pto"))


if __name__ == "__main__":
    sys.exit(main())
