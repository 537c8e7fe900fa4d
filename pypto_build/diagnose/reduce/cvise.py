"""C-Vise on kernels that no module was made from (CVISE=1): it knows C++, which deleting lines does not.

It reduces the version without the fault; a candidate is one if the fault can be carried into it and shows. Its test is
a script that asks this process, which has everything loaded, by a socket.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.reduce.case import Case, Invalid
from pypto_build.diagnose.reduce.search import Search

_FILE = "kernel.cpp"
_ASK = (
    "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.connect({address!r}); "
    "s.sendall(os.getcwd().encode() + b'\\0'); sys.exit(0 if s.recv(1) == b'y' else 1)"
)
#: How long one test of C-Vise may wait for its turn here.
_TEST_S = 600


def require_cvise() -> None:
    """Raise where CVISE=1 asks for a program that is not there."""
    if shutil.which("cvise") is None:
        raise ArtifactError("CVISE=1", "C-Vise is not installed", "apt-get install cvise, or leave it out")


def polished(search: Search, case: Case) -> Case:
    """The case with its hand-written kernels reduced by C-Vise, which takes minutes."""
    for func_id in [code.kernel.func_id for code in case.used if not code.unit]:
        before = case.summary()
        tried = search.tried
        case = _reduced(search, case, func_id)
        search.say(f"cvise: {search.tried - tried} tried; {before} -> {case.summary()}")
    return case


def _reduced(search: Search, case: Case, func_id: int) -> Case:
    # Not in OUT, whose path may be longer than the address of a socket.
    with tempfile.TemporaryDirectory(prefix="pypto-build-cvise-") as directory:
        place = Path(directory)
        (place / _FILE).write_text("\n".join(case.codes[func_id].clean) + "\n", encoding="utf-8")
        address = str(place / "ask")
        asking = place / "interesting.sh"
        command = shlex.join([sys.executable, "-I", "-S", "-c", _ASK.format(address=address)])
        asking.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        asking.chmod(0o755)
        words = ["cvise", "--n", str(search.jobs), "--timeout", str(_TEST_S), str(asking), _FILE]
        with socket.socket(socket.AF_UNIX) as server, (place / "log").open("wb") as log:
            server.bind(address)
            server.listen(64)
            server.settimeout(0.2)
            run = subprocess.Popen(words, cwd=place, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                while run.poll() is None:
                    _answer(server, search, case, func_id)
            finally:
                run.terminate()
                run.wait()
        return _candidate(search, case, func_id, place / _FILE) or case


def _answer(server: socket.socket, search: Search, case: Case, func_id: int) -> None:
    """Answer one test, if one is waiting."""
    try:
        asker, _ = server.accept()
    except TimeoutError:
        return
    with asker:
        asker.settimeout(5)
        try:
            said = asker.recv(4096).rstrip(b"\0")
            found = _candidate(search, case, func_id, Path(os.fsdecode(said)) / _FILE)
            asker.sendall(b"n" if found is None else b"y")
        except OSError:  # C-Vise ends tests that it needs no more
            return


def _candidate(search: Search, case: Case, func_id: int, file: Path) -> Case | None:
    """The case with the text of a file, if it fails in the same way."""
    try:
        smaller = case.with_body(func_id, file.read_text("utf-8", "replace").splitlines())
    except (Invalid, OSError):
        return None
    return smaller if search.holds(smaller) else None
