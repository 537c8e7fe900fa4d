"""`python -m pypto_build.compiler.golden ARTIFACT`: data/in and data/out from the artifact's golden.py.

Computes nothing while golden.py and the files match their digests in data/golden.json. An input that the user added or
changed stays, and the outputs are computed from it. A deleted input is made again. No other part of the compiler runs
torch. Exit status 0, 2 for wrong usage, 4 when the reference fails.
"""

from __future__ import annotations

import argparse
import json
import re
import runpy
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.compiled_files import (
    COMPILED_FILES_NAME,
    GOLDEN_RECORD,
    are_as_recorded,
    digest_of,
    read_compiled_files,
    read_computed_data,
)
from pypto_build.artifact.errors import require_torch
from pypto_build.artifact.files import from_here, read_text, remove_temporary, write_bytes
from pypto_build.artifact.pt import write_pt


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pypto_build.compiler.golden", description=__doc__)
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT")
    parser.add_argument("--if-any", action="store_true", help="no error if there is no reference")
    arguments = parser.parse_args(argv)
    roots = roots_of(arguments.artifact)
    if not roots and not arguments.if_any:
        source = arguments.artifact / "golden.py"
        print(f"error: {source}: no such file; compile a program that has a reference", file=sys.stderr)
        return 2
    for root in roots:
        if status := _bring_up_to_date(root):
            return status
    return 0


def roots_of(artifact: Path) -> list[Path]:
    """Return the artifact, or its parts that have a reference."""
    if (artifact / "golden.py").is_file():
        return [artifact]
    return sorted(path.parent for path in artifact.glob("next_levels/*/golden.py"))


def _bring_up_to_date(root: Path) -> int:
    source, stamp = root / "golden.py", _Stamp(root)
    if stamp.is_current():
        return 0
    remove_temporary(root / "data")
    try:
        require_torch(str(source))
        files = compute(root, stamp.user_inputs())
    except ArtifactError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(source)]
        file, line = program_line(root, frames[-1].name, frames[-1].lineno or 1) if frames else (source, 0)
        position = f"{from_here(file)}:{line}" if line else str(source)
        print(f"error: {position}: {type(error).__name__}: {error}", file=sys.stderr)
        return 4
    stamp.write(files)
    for path, written in sorted(files.items()):
        print(f"[golden] {'wrote' if written else 'took'} {from_here(root / path)}")
    return 0


def program_line(root: Path, name: str, line: int) -> tuple[Path, int]:
    """Return file and line in the program for a line of golden.py; the line of golden.py itself if the origin is
    ambiguous.
    """
    function = re.compile(rf"\s*def {re.escape(name)}\(")
    document = read_compiled_files(root / COMPILED_FILES_NAME)
    written = (root / "golden.py").read_text(encoding="utf-8").splitlines()
    begin = next((number for number in range(line, 0, -1) if function.match(written[number - 1])), line)
    for name in document.sources if document else ():
        lines = read_text(Path(name), errors="replace").splitlines() if Path(name).is_file() else []
        begins = [number for number, text in enumerate(lines, 1) if function.match(text)]
        places = [start + line - begin for start in begins if start + line - begin <= len(lines)]
        same = [number for number in places if lines[number - 1].strip() == written[line - 1].strip()]
        if len(same) == 1:
            return Path(name), same[0]
    return root / "golden.py", line


class _Stamp:
    """The content of data/golden.json: digests of golden.py and of the files, and the inputs made from it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.golden = digest_of(root / "golden.py")
        document = read_computed_data(root)
        self.files = document.files
        self.made = document.written
        self.golden_then = document.golden

    def is_current(self) -> bool:
        return bool(self.files) and self.golden_then == self.golden and are_as_recorded(self.root, self.files)

    def user_inputs(self) -> frozenset[str]:
        """Return the names of the inputs that differ from those that this tool generated."""
        paths = sorted((self.root / "data" / "in").glob("*.pt"))
        return frozenset(path.stem for path in paths if self.made.get(f"data/in/{path.name}") != digest_of(path))

    def write(self, files: Mapping[str, bool]) -> None:
        digests = {path: digest_of(self.root / path) for path in sorted(files)}
        own = {path: digest for path, digest in digests.items() if files[path]}
        document = {"schema": 2, "golden": self.golden, "files": digests, "made": own}
        write_bytes(self.root / GOLDEN_RECORD, (json.dumps(document, indent=2) + "\n").encode())
        for path in self.files.keys() - files.keys():
            with suppress(OSError):
                (self.root / path).unlink()


def compute(root: Path, kept: frozenset[str] = frozenset()) -> dict[str, bool]:
    """Write the snapshot, except the inputs in ``kept``.

    Returns its files, relative to `root`, and whether each was written.
    """
    golden = runpy.run_path(str(root / "golden.py"))
    import torch

    inputs: dict[str, torch.Tensor] = golden["make_inputs"]()
    files: dict[str, bool] = {}
    for name, tensor in inputs.items():
        path = root / "data" / "in" / f"{name}.pt"
        files[f"data/in/{name}.pt"] = name not in kept
        if name in kept:
            _check_user_input(path, torch.load(path, weights_only=True), tensor)
        else:
            save(path, tensor)
    tensors: dict[str, Any] = dict(golden["generate_inputs"]({"name": "Default"}))
    golden["compute_golden"](tensors, {"name": "Default"})
    for name in golden["__outputs__"]:
        save(root / "data" / "out" / f"{name}.pt", tensors[name])
        files[f"data/out/{name}.pt"] = True
    return files


def _check_user_input(path: Path, tensor: Any, expected: Any) -> None:
    if (tensor.dtype, tensor.shape) != (expected.dtype, expected.shape):
        message = (
            f"{tensor.dtype} {list(tensor.shape)} is stored, but the program takes "
            f"{expected.dtype} {list(expected.shape)}"
        )
        raise ArtifactError(path, message, "delete the file; a new one is generated", kind="golden_error")


def save(path: Path, tensor: Any) -> None:
    import torch

    plain = tensor.detach().cpu().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    write_pt(path, str(plain.dtype).removeprefix("torch."), tuple(plain.shape), data)


if __name__ == "__main__":
    sys.exit(main())
