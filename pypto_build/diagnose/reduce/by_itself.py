"""Failures that are in one text: a kernel or an orchestration that does not compile, a golden.py that raises, an
orchestration with which the run does not end well. That text is reduced, and nothing else."""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pypto_build import terminal
from pypto_build.artifact import Artifact, ArtifactError, Kernel
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.interface import read_interface
from pypto_build.diagnose.extract.tensors import OrderBesides
from pypto_build.diagnose.extract.write import Text, api_of, frame_of, replacing, write_texts
from pypto_build.diagnose.reduce.build import Builder, Refused, run_own, run_verb
from pypto_build.diagnose.reduce.case import Case, Invalid
from pypto_build.diagnose.reduce.judge import Log, Search, jobs_of, open_log_for, runs
from pypto_build.toolchain.python import own_tool

# A text by itself: C++ or Python with fewer lines, as long as it ends in the same way.
# Lines go in halves, quarters, … down to single ones, blocks as a whole or without what encloses them. As with
# candidates of a run, endings are remembered in a log, and the order of trials depends on nothing but the text.

#: What of a text may go: a candidate's lines.
Ways = Callable[[list[str]], Iterable[list[str]]]


class TextSearch:
    """Tries shorter texts. ``ending`` says in a line how one ends; what can be done for ``jobs`` of them at once,
    ``prefetch`` does. A candidate is kept if it ends like ``target``."""

    def __init__(
        self, ending: Callable[[str], str], target: str, log: Log, jobs: int, prefetch: Callable[[str], object]
    ) -> None:
        self._ending, self.target, self.log, self.jobs, self._prefetched = ending, target, log, max(1, jobs), prefetch
        self.tried = self.kept = self.remembered = 0
        terminal.show_progress(lambda: f"[reduce] {self.tried} tried")

    def holds(self, text: str) -> bool:
        """Return whether a text ends in the same way."""
        return self._hold([text])[0]

    def _hold(self, texts: list[str]) -> list[bool]:
        """Return that for several texts, which are tried at once."""
        digests = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts]
        new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in self.log.known}
        self.remembered += len(set(digests)) - len(new)
        if len(new) > 1:
            with ThreadPoolExecutor(self.jobs) as pool:
                list(pool.map(self._prefetched, new.values()))
        for digest, text in new.items():
            self.log.add(digest, self._ending(text))
        return [self.log.known[digest] == " ".join(self.target.split()) for digest in digests]

    def reduced(self, text: str, ways: Ways) -> str:
        """Return the shortest text reached from one that ends as the target."""
        while (shorter := self._first(text, ways)) is not None:
            self.kept += 1
            text = shorter
        return text

    def _first(self, text: str, ways: Ways) -> str | None:
        """Return the first candidate that is kept. The number of jobs does not change which one it is."""
        candidates = _distinct(text, ways(text.splitlines()))
        while batch := list(islice(candidates, self.jobs)):
            for candidate, held in zip(batch, self._hold(batch), strict=True):
                self.tried += 1
                if held:
                    return candidate
        return None


def _distinct(text: str, candidates: Iterable[list[str]]) -> Iterator[str]:
    seen = {text}
    for lines in candidates:
        shorter = "\n".join(lines) + "\n" if lines else ""
        if shorter not in seen and _size(shorter) < _size(text):
            seen.add(shorter)
            yield shorter


def _size(text: str) -> int:
    """Return how many characters there are to read, without indentation and `pass`."""
    return sum(len(line.strip()) for line in text.splitlines() if line.strip() != "pass") + text.count("\n")


def fewer_lines(lines: list[str]) -> Iterator[list[str]]:
    """Yield C++ without half of its lines, a quarter, … one; then without blocks, or without what encloses them."""
    for start, stop in runs(len(lines)):
        yield [*lines[:start], *lines[stop:]]
    for first, last in _blocks(lines):
        yield [*lines[:first], *lines[last + 1 :]]
        yield [*lines[:first], *lines[first + 1 : last], *lines[last + 1 :]]
    yield from ([*lines[:at], *lines[at + 2 :]] for at in range(len(lines) - 1))  # two that belong together


def _blocks(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and last lines of blocks between braces or between #if and #endif, outer blocks first."""
    blocks, opened, directives = [], [], []
    for at, line in enumerate(lines):
        if line.lstrip().startswith("#if"):
            directives.append(at)
        elif line.lstrip().startswith("#endif") and directives:
            blocks.append((directives.pop(), at))
        for char in line.partition("//")[0]:
            if char == "{":
                opened.append(at)
            elif char == "}" and opened:
                blocks.append((opened.pop(), at))
    yield from sorted((first, last) for first, last in blocks if last > first)


def fewer_statements(lines: list[str]) -> Iterator[list[str]]:
    """Python without statements: runs of them, halves first, then each; the only one of a body becomes `pass`."""
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return
    for body in _bodies(tree):
        spans = [(_first_line(one), one.end_lineno or one.lineno) for one in body]
        for start, stop in runs(len(spans), max(len(spans) // 2, 1)):
            first, last = spans[start][0] - 1, spans[stop - 1][1]
            indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
            instead = [f"{indent}pass"] if stop - start == len(spans) and indent else []
            yield [*lines[:first], *instead, *lines[last:]]
    yield from _opened(lines, tree)
    for at, line in enumerate(lines):  # comments, blank lines
        if not line.strip() or line.lstrip().startswith("#"):
            yield [*lines[:at], *lines[at + 1 :]]


def _opened(lines: list[str], tree: ast.AST) -> Iterator[list[str]]:
    """A statement without its `else`, and the body of one in its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.For | ast.While | ast.Try | ast.With):
            body, first, last = node.body, node.lineno - 1, node.end_lineno or node.lineno
            end = body[-1].end_lineno or body[-1].lineno
            inner = lines[_first_line(body[0]) - 1 : end]
            indent = body[0].col_offset - node.col_offset
            if getattr(node, "orelse", []) and not isinstance(node, ast.Try):
                yield [*lines[:end], *lines[last:]]
            yield [*lines[:first], *(line[indent:] for line in inner), *lines[last:]]


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every sequence of statements, the outer ones first."""
    todo = [tree]
    while todo:
        node = todo.pop(0)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body
                todo += body
        todo += getattr(node, "handlers", [])


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


# C-Vise on kernels that no module was made from (CVISE=1), and on C++ that is reduced by itself: it knows C++, which
# deleting lines does not.
# Of a kernel it reduces the version without the fault; a candidate is one if the fault can be carried into it and
# shows. Its test is a script that asks this process, which has everything loaded, by a pipe.

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
    """Return whether C-Vise is installed."""
    return shutil.which("cvise") is not None


def require_cvise() -> None:
    """Raise where CVISE=1 asks for a program that is not there."""
    if not has_cvise():
        raise ArtifactError("CVISE=1", "C-Vise is not installed", "run apt-get install cvise, or leave out CVISE=1")


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
    """Return the text as reduced by C-Vise. ``holds`` returns True if a text still fails in the same way."""
    with tempfile.TemporaryDirectory(prefix="pypto-build-cvise-") as holder:
        scratch = Path(holder)
        (scratch / _FILE).write_text(text, encoding="utf-8")
        address = str(scratch / "ask")
        asking = scratch / "interesting.sh"
        command = shlex.join([sys.executable, "-I", "-S", "-c", _ASK.format(address=address)])
        asking.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        asking.chmod(0o755)
        words = ["cvise", "--n", str(jobs), "--timeout", str(_TEST_S), str(asking), _FILE]
        os.mkfifo(address)
        pipe = os.open(address, os.O_RDWR)  # so it has no end when nobody asks just now
        with open(pipe, "rb", buffering=0) as questions, (scratch / "log").open("wb") as log:
            run = subprocess.Popen(words, cwd=scratch, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                while run.poll() is None:
                    if select.select([questions], [], [], 0.2)[0]:
                        _answer(questions.readline(), holds)
            finally:
                run.terminate()
                run.wait()
        left = _text(scratch / _FILE)
        return left if left is not None and holds(left) else text


def _answer(line: bytes, holds: Callable[[str], bool]) -> None:
    """Answer one test of C-Vise. ``line`` is the path of the pipe for the answer; the candidate is beside it."""
    pipe = Path(os.fsdecode(line.rstrip(b"\n")))
    text = _text(pipe.parent / _FILE)
    answer = b"y" if text is not None and holds(text) else b"n"
    with suppress(OSError), open(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0) as stream:
        stream.write(answer)  # unless C-Vise has ended the test, which it needs no more


def _text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return None


def _candidate(search: Search, case: Case, func_id: int, text: str) -> Case | None:
    """Return the case with another text if it fails in the same way."""
    try:
        smaller = case.with_body(func_id, text.splitlines())
    except Invalid:
        return None
    return smaller if search.holds(smaller) else None


ORCHESTRATION = "orchestration"
#: What of an artifact's directory a copy has no use for.
_LEFT_OUT = ("out", "golden.json", "passes_dump", "report", "dfx_outputs", "build_output", "*.bak", "*.so", "*.o")
_ERROR = re.compile(r"\berror: *(.*)")


@dataclass
class Reduction:
    """The reduction of one text, with the check that it still fails in the same way."""

    options: argparse.Namespace
    artifact: Artifact
    root: Path  # where the result goes
    scratch: Path
    say: Callable[..., None]

    def search(
        self, ending: Callable[[str], str], target: str, text: str, prefetch: Callable[[str], object] = str
    ) -> TextSearch:
        """The search, with what an interrupted one knew."""
        question = [
            str(self.options.keep),
            target,
            text,
            self.options.platform,
            self.options.kernel_flags,
            self.options.arch,
        ]
        return TextSearch(
            ending, target, open_log_for(self.scratch, question, (), self.say), self.options.jobs, prefetch
        )

    def shortest(self, search: TextSearch, text: str, ways: Ways, what: str) -> str:
        """The text reduced, by C-Vise too where that is installed and the text is C++."""
        short = search.reduced(text, ways)
        self.say(f"{what}: {search.tried} tried; {_lines(text)} -> {_lines(short)}")
        if ways is fewer_lines and has_cvise():
            shorter = search.reduced(polished_text(short, search.holds, search.jobs), ways)
            self.say(f"{what}, cvise: {_lines(short)} -> {_lines(shorter)}")
            short = shorter
        return short

    def result(self) -> AbstractContextManager[Path]:
        """Return a temporary directory for the result. It replaces the destination at the end."""
        return replacing(self.root, {"artifact": str(self.options.artifact), "keep": self.options.keep})

    @property
    def short(self) -> str:
        """The result's directory as people type it."""
        return os.path.relpath(self.root)


def _lines(text: str) -> str:
    count = sum(bool(line.strip()) for line in text.splitlines())
    return f"{count} line{'' if count == 1 else 's'}"


# --- what does not compile -------------------------------------------------------------------------------------------


def reduce_build_error(one: Reduction, name: str) -> int:
    """The smallest source that the compiler refuses with the same words; ``name`` is the kernel, empty for the first.

    Raises ArtifactError where everything compiles.
    """
    sources = {kernel.name: kernel.source for kernel in one.artifact.kernels}
    sources[ORCHESTRATION] = one.artifact.orchestration.source
    kinds = {kernel.name: kernel.core_type for kernel in one.artifact.kernels} | {ORCHESTRATION: ORCHESTRATION}
    if name and name not in sources:
        raise ArtifactError(
            f"KEEP={one.options.keep}",
            f"the artifact has no kernel '{name}'",
            f"its kernels are {', '.join(sources)}",
        )
    builder = Builder(one.scratch / "built", _with_headers(one.options, one.artifact), one.artifact.runtime)
    for each in [name] if name else list(sources):
        text = sources[each].read_text("utf-8", "replace")

        def ending(candidate: str, kind: str = kinds[each]) -> str:
            try:
                builder.build([(kind, candidate)])
            except Refused as refused:
                return _message(str(refused))
            return "compiles"

        target = ending(text)
        if target == "compiles":
            continue
        one.say(f"{each}: {target}")
        search = one.search(ending, target, text, ending)
        short = one.shortest(search, text, fewer_lines, "lines")
        kernel = next((kernel for kernel in one.artifact.kernels if kernel.name == each), None)
        with one.result() as root:
            _write_source(one, root, kernel, short)
        return _compiled(one, target)
    what = f"'{name}' compiles" if name else "all kernels compile"
    raise ArtifactError(f"KEEP={one.options.keep}", what, "name the failure to keep with KEEP=")


def _with_headers(options: argparse.Namespace, artifact: Artifact) -> argparse.Namespace:
    """Return the options with the directories of headers beside the sources."""
    places = dict.fromkeys(
        path.parent for path in (artifact.orchestration.source, *(k.source for k in artifact.kernels))
    )
    extra = dict.fromkeys(path for kernel in artifact.kernels for path in kernel.extra_include_dirs)
    flags = " ".join(f"-I{shlex.quote(str(path))}" for path in [*places, *extra])
    return argparse.Namespace(**{**vars(options), "kernel_flags": f"{options.kernel_flags} {flags}".strip()})


def _message(output: str) -> str:
    """Return an error message without its position and without the compiler's proposal."""
    match = _ERROR.search(output)
    text = (match[1] if match else output).partition("; did you mean")[0]
    return re.sub(r"/\S*/", "", text).strip() or "refused"


def _write_source(one: Reduction, root: Path, kernel: Kernel | None, text: str) -> None:
    """Write an artifact with one kernel that is never submitted, or with an orchestration that has no kernels."""
    artifact = one.artifact
    frame = frame_of(artifact, one.options.platform, one.root.name)
    if kernel is None:
        write_texts(root, frame, text, [], [])
        return
    vintage = read_interface(one.options.build_dir / "interface.json").vintage
    api = api_of(vintage, artifact.orchestration.source)
    none = OrderBesides()
    idle = Text([], [], api, after=none.after, manual=none.manual, a5=frame.a5)
    path = Path("kernels", kernel.core_type, f"{kernel.name}.cpp")
    write_texts(root, frame, idle.render(frame.program, artifact.name), [(kernel, path)], [])
    write_bytes(root / path, text.encode())


def _compiled(one: Reduction, target: str) -> int:
    """Build the result with `scons build`, and say whether it has the same error."""
    run = run_verb("build", one.root, one.scratch / "build", one.options)
    same = any(_message(line) == target for line in (run.stdout + run.stderr).splitlines() if "error: " in line)
    how = "built, it has the same error" if same else f"built, it ends with status {run.returncode}"
    one.say(f"{one.short}: {how}", f"scons build JIT={shlex.quote(one.short)}")
    return 0


# --- a golden that raises --------------------------------------------------------------------------------------------


def reduce_golden_error(one: Reduction) -> int:
    """Write the smallest golden.py that raises the same error, by type and message.

    Raises ArtifactError if there is no golden.py, or if it raises no error.
    """
    from pypto_build.artifact.errors import require_torch

    source = one.artifact.root / "golden.py"
    if not source.is_file():
        raise ArtifactError(source, "no such file", "KEEP=golden_error needs a golden.py that fails")
    require_torch(str(source))
    text = source.read_text("utf-8", "replace")
    target = golden_ending(one, text)
    if target == "computes":
        raise ArtifactError(
            f"KEEP={one.options.keep}", "golden.py does not fail", "name the failure to keep with KEEP="
        )
    one.say(f"golden.py: {target}")
    search = one.search(lambda candidate: golden_ending(one, candidate), target, text)
    short = one.shortest(search, text, fewer_statements, "statements")
    with one.result() as root:
        copy_artifact(one.artifact, root)
        write_bytes(root / "golden.py", short.encode())
    run = run_own([*own_tool("pypto_build.compiler.golden"), str(one.root)])
    last_line = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[-1]
    shutil.rmtree(one.root / "data" / "out", ignore_errors=True)
    one.say(f"{one.short}: computed, it ends with {last_line.rpartition('golden.py')[2].lstrip(':')}")
    return 0


def golden_ending(one: Reduction, text: str) -> str:
    """Run a golden on the artifact's data in a separate process. Returns its error, such as `TypeError: …`, or says
    that it computes.
    """
    importlib.import_module("torch")  # once, so that every fork has it
    from pypto_build.replay.faults import RunFault
    from pypto_build.replay.reference.launch import Progress, in_child

    directory = one.scratch / "golden"
    shutil.rmtree(directory, ignore_errors=True)
    inputs = sorted((one.artifact.root / "data" / "in").glob("*.pt"))
    (directory / "data" / "in").mkdir(parents=True)
    for path in inputs:
        (directory / "data" / "in" / path.name).symlink_to(path.resolve())
    (directory / "golden.py").write_text(text, encoding="utf-8")
    try:
        return in_child(lambda: _computed(directory, [path.stem for path in inputs]), Progress(), one.options.timeout)
    except RunFault as fault:
        return f"{fault.status}: {fault.error.message}"


def _computed(directory: Path, names: list[str]) -> str:
    import sys

    from pypto_build.compiler.golden import compute

    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        sys.stdout = nowhere
        try:
            compute(directory, frozenset(names))
        except BaseException as error:  # of anybody's code, SystemExit too
            return " ".join(f"{type(error).__name__}: {error}".replace(f"{directory}/", "").split())
        finally:
            sys.stdout = sys.__stdout__
    return "computes"


# --- what all of these have in common --------------------------------------------------------------------------------


def copy_artifact(artifact: Artifact, root: Path) -> None:
    """Copy an artifact's directory without files that are generated from it."""
    shutil.copytree(artifact.root, root, ignore=shutil.ignore_patterns(*_LEFT_OUT))


def reduction(options: argparse.Namespace, artifact: Artifact, root: Path, say: Callable[..., None]) -> Reduction:
    """Return the reduction of one text that ``options`` ask for."""
    options.jobs = jobs_of(options.jobs)
    return Reduction(options, artifact, root, scratch_of(options).absolute(), say)


def scratch_of(options: argparse.Namespace) -> Path:
    """Return the directory that keeps the tried candidates."""
    return Path(options.build_dir) / "reduce" / re.sub(r"\W+", "_", options.keep)
