"""Stands in for a compiler where that would build the runtime once more: the same inputs, the same object.

``python recompile.py STORE COMPILER ARGUMENTS...``; a file of its own, which imports nothing, since a compiler runs it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main(store: Path, words: list[str]) -> int:
    """Compile, or copy what an earlier compilation of the same made."""
    output = Path(words[words.index("-o") + 1])
    kept = store / _digest(words)
    if not kept.exists():
        status = subprocess.run(words, check=False).returncode
        if status or not output.exists():
            return status
        store.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copy(output, partial)
        partial.replace(kept)
    else:
        shutil.copy(kept, output)
    return 0


def _digest(words: list[str]) -> str:
    """Of flags, sources, and everything in the directories of headers except the system's."""
    digest = hashlib.sha256()
    output = words.index("-o") + 1
    for number, word in enumerate(words):
        if number == output:
            continue
        if word.endswith(".cpp"):
            digest.update(Path(word).read_bytes())
        elif number and words[number - 1] == "-I":
            for path in sorted(Path(word).rglob("*.*")):
                if path.is_file():
                    digest.update(path.read_bytes())
        else:
            digest.update(f"{word}\0".encode())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
