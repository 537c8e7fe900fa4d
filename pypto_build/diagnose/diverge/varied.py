"""Search for the one edit after which program, modules and kernels agree with the golden.

It is used if only the golden differs. The program's PyTorch runs with each edit of `variants` in turn; without a
program, the PyTorch of the modules does. The reference is edited too, and compared with the artifact's outputs, because
a run cannot tell which side is wrong.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from pypto_build.artifact.files import read_source
from pypto_build.compiler.golden import program_line
from pypto_build.diagnose.diverge.findings import relative
from pypto_build.diagnose.diverge.lockstep import Limits, compare_bytes
from pypto_build.diagnose.diverge.program import arguments, translate_program
from pypto_build.diagnose.diverge.variants import Passage, Trial, edits_of, line_of, python_trials
from pypto_build.diagnose.findings import Edit
from pypto_build.replay.binding import Binding
from pypto_build.replay.reference.hook import References
from pypto_build.replay.reference.launch import Launch

# Edits of a .pto module that are tried against the golden if there is no program.

#: Operations that take the same operands.
_ALIKE = (
    ("tadd", "tsub", "tmul", "tdiv", "tmax", "tmin"),
    ("tadds", "tsubs", "tmuls", "tdivs", "tmaxs", "tmins"),
    ("texp", "tlog", "tsqrt", "trsqrt", "trecip", "tabs", "tneg", "trelu"),
    ("trowsum", "trowmax", "trowmin"),
    ("tcolsum", "tcolmax", "tcolmin"),
    ("trowexpandadd", "trowexpandsub", "trowexpandmul", "trowexpanddiv", "trowexpandmax", "trowexpandmin"),
    ("tcolexpandadd", "tcolexpandsub", "tcolexpandmul", "tcolexpanddiv", "tcolexpandmax", "tcolexpandmin"),
    ("arith.addi", "arith.subi", "arith.muli"),
    ("arith.addf", "arith.subf", "arith.mulf", "arith.divf"),
)
_OTHERS = {name: tuple(other for other in names if other != name) for names in _ALIKE for name in names}
_OPERATION = re.compile(r"\b(?:pto\.)?(?P<name>t[a-z]+|arith\.\w+)\b(?= ins\(| %)")
_OPERANDS = re.compile(r"\bins\((?P<one>%[\w#]+), (?P<other>%[\w#]+)")
_CONSTANT = re.compile(r"= arith\.constant (?P<value>-?[\d.]+(?:e[+-]?\d+)?) : (?P<type>f\d+|index)")
_ROUNDING = re.compile(r"round_mode (?P<mode>RINT|ROUND|FLOOR|CEIL|TRUNC)\b")


def module_trials(text: str) -> list[Trial]:
    """Return the edits of a module's text: operations, operands, roundings, constants."""
    candidates = [*_operations(text), *_exchanges(text), *_roundings(text), *_constants(text)]
    return list({trial.changes: trial for trial in candidates}.values())


def _one(match: re.Match[str], group: str, new: str) -> Trial:
    span = Passage(match.start(group), match.end(group), match[group])
    return Trial(f"'{new}' in place of '{span.text}'", ((span, new),))


def _operations(text: str) -> Iterator[Trial]:
    for match in _OPERATION.finditer(text):
        yield from (_one(match, "name", other) for other in _OTHERS.get(match["name"], ()))


def _exchanges(text: str) -> Iterator[Trial]:
    for match in _OPERANDS.finditer(text):
        one, other = (Passage(match.start(name), match.end(name), match[name]) for name in ("one", "other"))
        if one.text != other.text:
            what = f"'{one.text}' and '{other.text}' swapped"
            yield Trial(what, ((one, other.text), (other, one.text)))


def _roundings(text: str) -> Iterator[Trial]:
    for match in _ROUNDING.finditer(text):
        for mode in ("RINT", "ROUND", "FLOOR", "CEIL", "TRUNC"):
            if mode != match["mode"]:
                yield _one(match, "mode", mode)


def _constants(text: str) -> Iterator[Trial]:
    for match in _CONSTANT.finditer(text):
        if match["type"] == "index":
            value = int(float(match["value"]))
            values = {str(other) for other in (value + 1, value - 1, 2 * value, value // 2, 0, 1) if other >= 0}
        else:
            number = float(match["value"])
            others = {-number, 2 * number, number / 2, 0.0, 1.0, number + 1, number - 1, 10 * number, number / 10}
            values = {f"{other:.9e}" for other in others | ({1 / number} if number else set())}
        yield from (_one(match, "value", value) for value in sorted(values - {match["value"]}))


#: Time limits in seconds: for all edits of one text, in processor time; and for one edit.
_BUDGET_S, _ONE_S = 12.0, 2.0
#: Functions of a golden.py that are not taken from the program.
_OWN = {"make_inputs", "generate_inputs", "_random", "_number"}
_LOCATION = re.compile(r'loc\("([^"]+)":(\d+)')


@dataclass(frozen=True)
class Hit:
    """An edit after which every output is right: its file and line, its description, and the lines it changes."""

    path: str
    line: int
    what: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Tried:
    """The number of tried edits, and the hits among them."""

    count: int = 0
    hits: tuple[Hit, ...] = ()


def _hits(text: str, trials: Sequence[Trial], right: Callable[[str], bool]) -> tuple[int, list[Trial]]:
    """Try edits of a text within the time limit. Returns the number of tried edits, and the edits that are right."""
    end = time.process_time() + _BUDGET_S
    hits: list[Trial] = []
    for number, trial in enumerate(trials):
        if time.process_time() > end:
            return number, hits
        with _limited():
            if right(trial.applied(text)):
                hits.append(trial)
    return len(trials), hits


@contextmanager
def _limited() -> Iterator[None]:
    """End the block at the time limit, and ignore its exceptions: an edit that fails is not right."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, _ONE_S)
    try:
        yield
    except Exception:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def vary_program(launch: Launch, binding: Binding, within: Limits, path: Path, rounding: str) -> Tried:
    """Try edits of the program against the golden."""
    name = Path(launch.interface.orchestration.source).stem
    text = read_source(path)
    seen: set[str] = set()

    def right(edited: str) -> bool:
        program, _ = translate_program(path, name, launch.platform, edited)
        if program.translation.text in seen:
            return False
        seen.add(program.translation.text)
        values = arguments(launch, program.functions[program.entry])
        program.namespace()[program.named(program.entry)](*values.values())
        return _all_close(values, goldens, within)

    goldens = _goldens(binding)
    program, _ = translate_program(path, name, launch.platform)
    seen.add(program.translation.text)
    functions = {function.position.line: name for name, function in program.functions.items()}
    count, hits = _hits(text, python_trials(text, set(functions.values()) | _inlined(text), rounding), right)
    return Tried(count, tuple(_hit(trial, text, str(path)) for trial in hits))


def _inlined(text: str) -> set[str]:
    """Return the names of functions decorated as inline, which the translated program does not list."""
    return set(re.findall(r"@[\w.]+\.inline[^\n]*\n(?:@[^\n]*\n)*def (\w+)", text))


def vary_reference(launch: Launch, within: Limits, rounding: str) -> Tried:
    """Try edits of golden.py against the outputs of the artifact."""
    path = launch.artifact / "golden.py"
    if not path.is_file():
        return Tried()
    text = read_source(path)
    own = _namespace(path, text)
    if not {"generate_inputs", "compute_golden"} <= own.keys():
        return Tried()
    inputs = dict(own["generate_inputs"]({"name": "Default"}))
    launch.run(lambda call: call.run())
    actual = {
        tensor.name: (tensor.dtype, bytes(launch.arena.tensor(index)))
        for index, tensor in enumerate(launch.binding.tensors)
        if tensor.direction != "IN"
    }

    def right(edited: str) -> bool:
        tensors = {name: value.clone() if hasattr(value, "clone") else value for name, value in inputs.items()}
        _namespace(path, edited)["compute_golden"](tensors, {"name": "Default"})
        return _all_close(tensors, actual, within)

    functions = _functions_of(own)
    count, passing = _hits(text, python_trials(text, functions, rounding), right)
    hits = []
    for trial in passing:
        hit = _hit(trial, text, str(path))
        function = re.findall(r"^def (\w+)\(", "\n".join(text.splitlines()[: hit.line]), re.MULTILINE)
        file, line = program_line(launch.artifact, function[-1] if function else "", hit.line)
        if file == path:
            hits.append(_hit(trial, text, relative(launch.artifact, path)))
        else:
            edits = tuple(Edit(str(file), line + e.line - hit.line, e.old, e.new) for e in hit.edits)
            hits.append(Hit(str(file), line, hit.what, edits))
    return Tried(count, tuple(hits))


def _namespace(path: Path, text: str) -> dict[str, Any]:
    """Return the names that a golden.py with this text defines."""
    namespace: dict[str, Any] = {"__file__": str(path), "__name__": "golden"}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace


def _functions_of(namespace: Mapping[str, Any]) -> Collection[str]:
    """Return the functions that compute_golden calls, and compute_golden itself unless the compiler wrote it."""
    names = {"compute_golden"}
    for name in (more := list(names)):
        called = namespace[name].__code__.co_names
        new = [other for other in called if isinstance(namespace.get(other), FunctionType) and other not in names]
        names.update(new)
        more += new
    return names - _OWN - ({"compute_golden"} if "_number" in namespace else set())


def vary_modules(launch: Launch, binding: Binding, within: Limits) -> Tried:
    """Try edits of the modules against the golden. A hit names the program's line if the module records it."""
    import torch

    torch.set_num_threads(1)
    references = References(launch.artifact, numerics=launch.numerics)
    goldens = _goldens(binding)
    total, hits = 0, list[Hit]()
    for path in sorted(launch.artifact.glob("ptoas/*.pto")):
        text = read_source(path)

        def right(edited: str, path: Path = path) -> bool:
            references.put(path, edited)

            def task(call: Any) -> None:
                of_it = any(member.body.unit.path == path for member in references.members(call) or ())
                if not of_it or not references.execute(call):
                    call.run()

            launch.run(task)
            arena = {t.name: bytes(launch.arena.tensor(i)) for i, t in enumerate(launch.binding.tensors)}
            return _all_close(arena, goldens, within)

        count, module_hits = _hits(text, module_trials(text), right)
        references.put(path, text)
        total += count
        hits += [_in_program(_hit(trial, text, relative(launch.artifact, path)), text) for trial in module_hits]
    return Tried(total, tuple(hits))


def _in_program(hit: Hit, text: str) -> Hit:
    """Return a hit with the program's line that the module records, or the same hit if that file is missing."""
    match = _LOCATION.search(text.splitlines()[hit.line - 1])
    if match is None or not Path(match[1]).is_file():
        return hit
    return Hit(match[1], int(match[2]), f"{hit.what} in {hit.path}:{hit.line}", hit.edits)


def _all_close(values: Mapping[str, Any], expected: Mapping[str, tuple[str, bytes]], within: Limits) -> bool:
    return all(compare_bytes(_bytes(values[name]), data, t, within) is None for name, (t, data) in expected.items())


def _bytes(value: Any) -> bytes:
    import torch

    if isinstance(value, bytes):
        return value
    return bytes(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def _goldens(binding: Binding) -> dict[str, tuple[str, bytes]]:
    return {t.name: (t.dtype, bytes(t.golden)) for t in binding.tensors if t.golden is not None and t.is_output}


def _hit(trial: Trial, text: str, path: str) -> Hit:
    return Hit(path, line_of(trial, text), trial.what, edits_of(trial, text, path))
