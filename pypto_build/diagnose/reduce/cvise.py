"""C-Vise on kernels that no module was made from (CVISE=1), and on C++ that is reduced by itself: it knows C++, which
deleting lines does not.

Of a kernel it reduces the version without the fault; a candidate is one if the fault can be carried into it and shows.
Its test is a script that asks this process, which has everything loaded, by a pipe.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.reduce.case import Case, Invalid
from pypto_build.diagnose.reduce.search import Search

_FILE = "kernel.cpp"
# Pipes with names, since there are no sockets in a sandbox. What several tests ask does not mix: lines are short.
_ASK = (
    "import os, sys; name = os.path.abspath(f'answer.{{os.getpid()}}'); os.mkfifo(name); "
    "answer = os.open(name, os.O_RDWR); ask = os.open({address!r}, os.O_WRONLY); "
    "os.write(ask, os.fsencode(name) + b'\\n'); sys.exit(0 if os.read(answer, 1) == b'y' else 1)"
)
#: How long one test of C-Vise may wait for its turn here.
_TEST_S = 600


def has_cvise() -> bool:
    """Whether it is installed."""
    return shutil.which("cvise") is not None


def require_cvise() -> None:
    """Raise where CVISE=1 asks for a program that is not there."""
    if not has_cvise():
        raise ArtifactError("CVISE=1", "C-Vise is not installed", "apt-get install cvise, or leave it out")


def polished(search: Search, case: Case) -> Case:
    """The case with its hand-written kernels reduced by C-Vise, which takes minutes."""
    for func_id in [code.kernel.func_id for code in case.by_hand]:
        before = case.summary()
        tried = search.tried
        case = _reduced(search, case, func_id)
        search.say(f"cvise: {search.tried - tried} tried; {before} -> {case.summary()}")
    return case


def _reduced(search: Search, case: Case, func_id: int) -> Case:
    def holds(text: str) -> bool:
        return _candidate(search, case, func_id, text) is not None

    text = polished_text("\n".join(case.codes[func_id].clean) + "\n", holds, search.jobs)
    return _candidate(search, case, func_id, text) or case


def polished_text(text: str, holds: Callable[[str], bool], jobs: int) -> str:
    """What C-Vise makes of a text; ``holds`` says of one whether it still fails in the same way."""
    with tempfile.TemporaryDirectory(prefix="pypto-build-cvise-") as directory:
        place = Path(directory)
        (place / _FILE).write_text(text, encoding="utf-8")
        address = str(place / "ask")
        asking = place / "interesting.sh"
        command = shlex.join([sys.executable, "-I", "-S", "-c", _ASK.format(address=address)])
        asking.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        asking.chmod(0o755)
        words = ["cvise", "--n", str(jobs), "--timeout", str(_TEST_S), str(asking), _FILE]
        os.mkfifo(address)
        asked = os.open(address, os.O_RDWR)  # so it has no end when nobody asks just now
        with open(asked, "rb", buffering=0) as questions, (place / "log").open("wb") as log:
            run = subprocess.Popen(words, cwd=place, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                while run.poll() is None:
                    if select.select([questions], [], [], 0.2)[0]:
                        _answer(questions.readline(), holds)
            finally:
                run.terminate()
                run.wait()
        left = _text(place / _FILE)
        return left if left is not None and holds(left) else text


def _answer(line: bytes, holds: Callable[[str], bool]) -> None:
    """Answer one test, whose line is the pipe for the answer, beside its text."""
    pipe = Path(os.fsdecode(line.rstrip(b"\n")))
    text = _text(pipe.parent / _FILE)
    answer = b"y" if text is not None and holds(text) else b"n"
    with suppress(OSError), open(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0) as told:
        told.write(answer)  # unless C-Vise has ended the test, which it needs no more


def _text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return None


def _candidate(search: Search, case: Case, func_id: int, text: str) -> Case | None:
    """The case with another text, if it fails in the same way."""
    try:
        smaller = case.with_body(func_id, text.splitlines())
    except Invalid:
        return None
    return smaller if search.holds(smaller) else None
