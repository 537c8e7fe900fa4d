"""Results of a device: collects them from a run, keeps them in one file to send, compares them with the answers."""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError, load_artifact, snapshot
from pypto_build.artifact.files import read_bytes, write_bytes
from pypto_build.artifact.interface import sign
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.artifact.scene_test import SCENE_TEST_NAME, SceneTest, render_scene_test
from pypto_build.compiler import CompileError, Options, compile_file
from pypto_build.compiler.write import write_files
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.pto.ops.agreement import AGREEMENTS
from pypto_build.replay.verdict import read_verdict

from .asked import groups
from .question import Array, Group, KernelEdit, Question

# Write the kit: one artifact for each group of questions, with inputs, expected outputs and a scene test.

_PROGRAMS = Path(__file__).with_name("programs")
#: The numpy type that stores an element type unknown to numpy.
_STORED = {"bfloat16": "uint16"}


def write_kit(root: Path, platform: str) -> list[Path]:
    """Write all artifacts below ``root`` for the generation of ``platform``, and return their directories.

    Raises ArtifactError if ``root`` cannot be written, or if it holds other artifacts.
    """
    names = {group.artifact for group in groups()}
    try:
        root.mkdir(parents=True, exist_ok=True)
        others = sorted(path.name for path in root.glob("_jit_*") if path.name not in names)
        if others:
            raise ArtifactError(root, f"contains '{others[0]}', which does not belong to a kit", "name a new directory")
        return [_write(group, root / group.artifact, platform) for group in groups()]
    except OSError as error:
        raise ArtifactError(
            error.filename or root, f"cannot be written: {error.strerror}", "name another directory"
        ) from None


def _write(group: Group, root: Path, platform: str) -> Path:
    program = _PROGRAMS / f"{group.name}.py"
    generation = next(row.name for row in PLATFORMS.values() if row.simulated and row.arch == PLATFORMS[platform].arch)
    try:
        compiled = compile_file(str(program), root, generation, Options(locations=False))
    except CompileError as error:
        raise ArtifactError(program, str(error), "report this as a bug of pypto-build", kind="build_error") from None
    files = {name: text for name, text in compiled.files.items() if name != SCENE_TEST_NAME}
    files = {name: text.replace(str(program), program.name) for name, text in files.items()}
    write_files(root, _edited(files, group.edits))
    for name, values in {**group.inputs, **group.untouched}.items():
        _write_tensor(root / "data" / "in" / f"{name}.pt", values, values.dtype.name)
    for question in group.questions:
        expected = next((a for a in question.answers if a.label == question.device), question.answers[0])
        _write_tensor(root / "data" / "out" / f"{question.name}.pt", expected.values, question.dtype)
    write_bytes(root / SCENE_TEST_NAME, _scene_test(root, platform).encode())
    return root


def _edited(files: dict[str, str], edits: tuple[KernelEdit, ...]) -> dict[str, str]:
    """Return the files with each edit done once, without the modules that no longer say what the kernels do."""
    for edit in edits:
        files[edit.path], count = re.subn(edit.pattern, edit.replacement, files[edit.path])
        assert count == 1, edit
    return {name: text for name, text in files.items() if not (edits and name.startswith("ptoas/"))}


def _write_tensor(path: Path, values: Array, dtype: str) -> None:
    stored = values.astype(_STORED.get(dtype, dtype))
    write_pt(path, dtype, stored.shape, stored.tobytes())


def _scene_test(root: Path, platform: str) -> str:
    artifact = load_artifact(root)
    generation = tuple(row.name for row in PLATFORMS.values() if row.arch == PLATFORMS[platform].arch)
    test = SceneTest(artifact, sign(artifact).interface, snapshot(artifact), generation, keeps_outputs=True)
    return render_scene_test(test, root)


def digest_of_inputs() -> str:
    """Return a digest of all inputs, which identifies the kit's edition. Results are valid for one edition only."""
    digest = hashlib.sha256()
    for group in groups():
        for name, values in sorted(group.inputs.items()):
            digest.update(f"{group.name}.{name} {values.dtype.name} {values.shape}".encode() + values.tobytes())
    return digest.hexdigest()[:16]


_LARGEST = 1 << 22  # bytes of a results file; a file with all questions has a tenth of it


class RecordedOutput(msgspec.Struct, forbid_unknown_fields=True):
    """The elements of one output: their type, and their bytes in memory order as hexadecimal digits."""

    dtype: str
    bits: str


class Results(msgspec.Struct, forbid_unknown_fields=True):
    """The file to send. ``kit`` identifies the edition of the inputs, ``platform`` the platform that ran them."""

    kit: str
    platform: str
    outputs: dict[str, RecordedOutput]
    schema: Literal[1] = 1


@dataclass(frozen=True)
class Judgement:
    """The judgement of one question: the labels of the answers that fit, with the exact ones first.

    If none fits, ``nearest`` says how far the output is from the nearest answer. ``missing`` means that there is no
    output for the question.
    """

    question: Question
    fits: tuple[str, ...]
    nearest: str = ""
    missing: bool = False

    @property
    def state(self) -> str:
        """The state of the question in docs/lookup/agreement.md: agreed, differs or open."""
        return AGREEMENTS[self.question.name].state


def read_results(path: Path) -> Results:
    """Read a file of results. Raises ArtifactError for another kind of file, and for another edition of the kit."""
    try:
        data = read_bytes(path, _LARGEST)
    except OSError as error:
        raise ArtifactError(path, error.strerror or str(error), "name the results.json of a kit") from None
    try:
        results = msgspec.json.decode(data, type=Results)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(
            path, f"is not a valid file of results: {error}", "name the results.json of a kit"
        ) from None
    if results.kit != digest_of_inputs():
        hint = "read it with the version of pypto-build that wrote the kit, or write and run the kit anew"
        raise ArtifactError(path, "was written by another version of the kit", hint)
    for name, output in results.outputs.items():
        if not re.fullmatch("(?:[0-9a-f]{2})*", output.bits):
            raise ArtifactError(
                path, f"{_shown(name)}: the bits in the file are not hexadecimal digits", "ask for the file again"
            )
    return results


def write_results(results: Results) -> bytes:
    """Return the text of the results file."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"


def collect(root: Path, platform: str = "") -> Results:
    """Collect the outputs of runs below ``root``.

    Scene tests write them beside the kit's artifacts, replays into a directory of builds. Raises ArtifactError if there
    are no outputs, or outputs of several runs.
    """
    if not root.is_dir():
        raise ArtifactError(
            root, "no such directory", "name the directory of the kit, or the BUILD_DIR= of its replays"
        )
    places = {group.name: _places(root, group, platform) for group in groups()}
    roots = {directory.parent.parent for several in places.values() for directory in several}
    if not roots:
        hint = "run the kit first: pypto-build conformance DIR --run"
        raise ArtifactError(root, "contains no outputs of the kit's artifacts", hint)
    if len(roots) > 1:
        listed = ", ".join(sorted(str(path.relative_to(root)) or "." for path in roots))
        raise ArtifactError(root, f"contains outputs of several runs ({listed})", "name the directory of one run")
    outputs: dict[str, RecordedOutput] = {}
    ran_on = platform
    for group in groups():
        for directory in places[group.name]:
            ran_on = _platform(directory.parent) or ran_on
            outputs |= dict(_outputs(directory, group))
    return Results(digest_of_inputs(), ran_on, outputs)


def _places(root: Path, group: Group, platform: str) -> list[Path]:
    """Return the directories with outputs of one artifact. They are at most two levels below the root."""
    levels = ["", f"{platform}/" if platform else "*/", f"build/{platform}/" if platform else "build/*/"]
    return [
        directory
        for level in levels
        for directory in sorted(root.glob(f"{level}{group.artifact}/actual"))
        if directory.is_dir()
    ]


def _platform(output: Path) -> str:
    """Return the platform of a replay from its verdict, or an empty text if there is no verdict."""
    verdict = output / "verdict.json"
    if not verdict.is_file():
        return ""
    read = read_verdict(verdict)
    return read.platform if read.runtime == "embedded" else f"{read.platform} ({read.runtime})"


def _outputs(directory: Path, group: Group) -> Iterator[tuple[str, RecordedOutput]]:
    for question in group.questions:
        path = directory / f"{question.name}.pt"
        if path.is_file():
            tensor = read_pt(path)
            yield question.name, RecordedOutput(tensor.dtype, bytes(tensor.data).hex())


def judge(results: Results, source: Path | str = "") -> list[Judgement]:
    """Judge every question of the kit, in the kit's order. ``source`` is the file that the results are from.

    Raises ArtifactError if the results name an unknown question, or an output has a wrong type or size.
    """
    questions = {question.name: question for group in groups() for question in group.questions}
    if unknown := sorted(set(results.outputs) - questions.keys()):
        what = f"has results for {_shown(unknown[0])}, which is not a question of this kit"
        raise ArtifactError(source, what, "ask for the file again")
    return [_judge(question, results.outputs, source) for question in questions.values()]


def _shown(text: str) -> str:
    """Return an untrusted text as printable ASCII on one line, cut to 60 characters."""
    return ascii(text[:60])


def _judge(question: Question, outputs: Mapping[str, RecordedOutput], source: Path | str) -> Judgement:
    if question.name not in outputs:
        return Judgement(question, (), missing=True)
    output, expected = outputs[question.name], question.answers[0].values
    data = binascii.unhexlify(output.bits)
    if output.dtype != question.dtype or len(data) != expected.nbytes:
        what = (
            f"has {len(data)} bytes of {_shown(output.dtype)}, but should have {expected.nbytes} bytes "
            f"of '{question.dtype}'"
        )
        raise ArtifactError(source, f"'{question.name}' {what}", "run the kit again, without changes")
    actual = np.frombuffer(data, expected.dtype).reshape(expected.shape)
    apart = {answer.label: _apart(actual, answer.values) for answer in question.answers}
    fits = tuple(answer.label for answer in question.answers if apart[answer.label].max(initial=0) <= answer.ulps)
    exact = [answer.label for answer in question.answers if not answer.ulps]
    label = min(exact, key=lambda label: (np.count_nonzero(apart[label]), apart[label].max(initial=0)))
    wrong, most = np.count_nonzero(apart[label]), apart[label].max(initial=0)
    how = f"by up to {most:,} of the last place" if question.dtype.startswith("float") and most < 1 << 30 else ""
    return Judgement(question, fits, f"{wrong} of {actual.size} elements differ from '{label}' {how}".rstrip())


def _apart(actual: Array, expected: Array) -> Array:
    """Return the distance of each element in units of the last place. All NaN are equal, and -0 differs from 0."""
    if expected.dtype.kind != "f":
        return np.abs(actual.astype(np.int64) - expected.astype(np.int64))
    bits = np.int32 if expected.itemsize == 4 else np.int16
    low = np.iinfo(bits).min

    def order(values: Array) -> Array:
        whole = values.view(bits).astype(np.int64)
        return np.where(whole < 0, low - 1 - whole, whole)

    both = np.isnan(actual) & np.isnan(expected)
    return np.where(both, 0, np.abs(order(np.ascontiguousarray(actual)) - order(np.ascontiguousarray(expected))))


def lines_of(results: Results, judgements: list[Judgement]) -> Iterator[str]:
    """Return the report: a line for each question, and a line that counts the recognised answers."""
    settled = [each for each in judgements if each.fits]
    neither = [each for each in judgements if not (each.fits or each.missing)]
    width = max(len(each.question.name) for each in judgements)
    for each in judgements:
        answer = "; ".join(each.fits[:1]) or ("not run" if each.missing else f"neither: {each.nearest}")
        yield f"{each.question.name:<{width}}  {each.state:<7}  {answer}{_who(each)}"
    missing = len(judgements) - len(settled) - len(neither)
    of = f" of {_shown(results.platform)[1:-1]}" if results.platform else ""
    more = f", {missing} not run" if missing else ""
    yield f"[conformance]{of}: {len(settled)} recognised, {len(neither)} neither{more}"


def _who(judgement: Judgement) -> str:
    """Return the names of the implementations that give the recognised answer, in parentheses."""
    question, label = judgement.question, next(iter(judgement.fits), "")
    who = [name for name in ("device", "simulator", "here") if label and getattr(question, name) == label]
    return f"  ({', '.join(who)})" if who else ""
