"""`python -m pypto_build.pto.torch ARTIFACT_DIR --platform P --build-dir OUT`: the PyTorch of every unit, a file each,
in OUT/torch/. A file is only written when its text changes.

Exit status: 0, 2 for wrong usage, 3 when a module cannot be translated; the others are written all the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import PtoError, parse_file
from ..atomic import write_atomically
from . import UnsupportedOperations, torch_codegen


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="python -m pypto_build.pto.torch", description=__doc__)
    options.add_argument("artifact", type=Path, metavar="ARTIFACT_DIR")
    options.add_argument("--platform", metavar="P", help="accepted for the sake of uniformity: modules name their own")
    options.add_argument("--build-dir", type=Path, required=True, metavar="OUT")
    options.add_argument("--check-shapes", action="store_true", help="assert that arguments are tensors")
    arguments = options.parse_args(argv)
    modules = sorted(arguments.artifact.glob("ptoas/**/*.pto")) + sorted(arguments.artifact.glob("kernels/**/*.pto"))
    if not modules:
        print(f"torch: {arguments.artifact}: contains no .pto modules; compile the program again", file=sys.stderr)
        return 2
    status = 0
    for path in modules:
        try:
            text = torch_codegen(parse_file(str(path)), check_shapes=arguments.check_shapes)
        except (PtoError, UnsupportedOperations) as error:
            print(f"torch: {error}", file=sys.stderr)
            status = 3
            continue
        target = arguments.build_dir / "torch" / f"{path.stem}.py"
        try:
            changed = _write(target, _headed(path, text))
        except OSError as error:
            print(f"torch: {target}: cannot be written: {error.strerror or error}", file=sys.stderr)
            return 2
        shown = target.relative_to(Path.cwd()) if target.is_relative_to(Path.cwd()) else target
        print(f"[torch] {shown}{'' if changed else ' (unchanged)'}")
    return status


def _headed(path: Path, text: str) -> str:
    return f'"""{path.name} in PyTorch, written by pypto-build. `run(...)` takes the tensors of the unit."""\n\n{text}'


def _write(path: Path, text: str) -> bool:
    """Write a text; return False if the file already has it."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    write_atomically(path, text)
    return True


if __name__ == "__main__":
    sys.exit(main())
