"""Stands in for a compiler where that would build the runtime once more: the same inputs, the same module.

``python recompile.py STORE COMPILER ARGUMENTS...``; a file of its own that imports nothing, since a compiler runs it.
An object is only a note of what it would be compiled from, all of which is read, and of the command. The link looks
under the notes for a module that was linked before, or takes the one that RECOMPILED names, else compiles.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main(store: Path, words: list[str]) -> int:
    """Note a compilation, or link."""
    output = Path(words[words.index("-o") + 1])
    if "-shared" not in words:
        output.write_text(json.dumps({"digest": _digest(words), "command": words}), encoding="utf-8")
        return 0
    notes = [json.loads(Path(word).read_text(encoding="utf-8")) for word in words if word.endswith(".o")]
    kept = store / hashlib.sha256("".join(note["digest"] for note in notes).encode()).hexdigest()
    if not kept.exists():
        if "RECOMPILED" in os.environ:
            shutil.copy(os.environ["RECOMPILED"], output)
        elif status := _build([*(note["command"] for note in notes), words]):
            return status
        store.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copy(output, partial)
        partial.replace(kept)
    else:
        shutil.copy(kept, output)
    return 0


def _build(commands: list[list[str]]) -> int:
    """Run them one after the other; the status of the first that fails."""
    return next((status for words in commands if (status := subprocess.run(words, check=False).returncode)), 0)


def _digest(words: list[str]) -> str:
    """Return a digest of flags, sources and all directories of headers but the system's; their paths do not count."""
    digest = hashlib.sha256()
    output = words.index("-o") + 1
    for number, word in enumerate(words[1:], 1):
        if number == output or word.startswith("-ffile-prefix-map="):
            continue
        if word.endswith(".cpp"):
            digest.update(Path(word).read_bytes())
        elif word.startswith("-I"):
            for path in sorted(Path(word[2:]).rglob("*.*")):
                if path.is_file():
                    digest.update(path.read_bytes())
        else:
            digest.update(f"{word}\0".encode())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
