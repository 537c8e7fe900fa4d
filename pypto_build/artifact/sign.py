"""``python -m pypto_build.artifact.sign DIR --manifest OUT --interface OUT``: signs an artifact.

Derives the signatures the manifest lacks from the orchestration C++, and writes the signed ``kernel_config.py`` and
``interface.json``. Same input, same bytes; each file appears whole or not at all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import ArtifactError
from .files import write_bytes
from .interface import encode_interface, sign
from .layout import load_artifact
from .manifest_writer import render_manifest

_EPILOG = "exit status: 0 written, 2 the artifact or the command line is at fault, 3 an output cannot be written"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        signed = sign(load_artifact(arguments.directory))
        manifest = render_manifest(signed.artifact, arguments.manifest.parent)
        _write(arguments.manifest, manifest.encode())
        _write(arguments.interface, encode_interface(signed.interface))
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    for note in signed.interface.notes:
        print(f"note: {note}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.artifact.sign",
        description="Write the signed manifest and the interface of an artifact.",
        epilog=_EPILOG,
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="the artifact, a directory with kernel_config.py")
    parser.add_argument(
        "--manifest", metavar="OUT", type=Path, required=True, help="where to write the signed manifest"
    )
    parser.add_argument("--interface", metavar="OUT", type=Path, required=True, help="where to write interface.json")
    return parser


def _write(path: Path, data: bytes) -> None:
    try:
        write_bytes(path, data)
    except OSError as error:
        raise ArtifactError(path, f"cannot be written: {error.strerror or error}", kind="build_error") from None


if __name__ == "__main__":
    sys.exit(main())
