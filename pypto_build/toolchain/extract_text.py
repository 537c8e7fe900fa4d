"""Takes the machine code out of a kernel for a device.

python -m pypto_build.toolchain.extract_text KERNEL.elf KERNEL.bin
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact.files import write_bytes
from pypto_build.toolchain.elf import ElfError, extract_text, read_elf

_WAY_OUT = "inline what the kernel calls, or link with a toolkit whose ld.lld merges the sections"


def main(argv: Sequence[str] | None = None) -> int:
    """Return exit status 0 on success, 2 for wrong usage, 3 if the file cannot run on a device."""
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 2:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    source, target = map(Path, words)
    try:
        write_bytes(target, extract_text(read_elf(source)))
    except ElfError as error:
        print(f"{source}: error: {error}; {_WAY_OUT}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"{error.filename}: error: {error.strerror}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
