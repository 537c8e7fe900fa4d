"""Edits of an orchestration that are tried if only the golden shows that something is wrong.

An edit after which the outputs match the golden shows the likely mistake. All edits are compiled into one library, and
a number chooses one. The edits use only names of the text:

- Two inputs or two scalars of a submission are exchanged.
- A loop begins or ends a step earlier or later.
- A submission is left out.
- A submission gets another kernel with the same arguments.
- A submission gets a scalar or an input of another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pypto_build.artifact.interface import KernelInterface
from pypto_build.diagnose.findings import Edit

#: The largest number of edits that are tried, because each takes a run.
MOST = 300
#: The variable of the library that chooses an edit; 0 is the original text.
CHOICE = "pypto_trial"

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_ADD = re.compile(r"\b(?P<list>\w+)\s*\.\s*add_(?P<method>\w+)\s*\((?P<value>[^;\n]{1,400})\)\s*;")
_SUBMIT = re.compile(r"^[ \t]*(?P<call>(?:pto2_)?rt_submit_\w*task\s*\([^;\n]{1,400}\)\s*;)", re.MULTILINE)
_FOR = re.compile(
    r"\bfor\s*\(\s*\w+\s+(?P<name>\w+)\s*=\s*(?P<first>\d+)\s*;\s*(?P=name)\s*<\s*(?P<end>\d+)\s*;\s*(?P=name)\s*"
    r"(?:\+=\s*(?P<step>\d+)|\+\+)\s*\)"
)
_TENSORS = ("input", "inout", "no_dep")
#: The core type and the number of a kernel that is submitted alone.
_KERNEL = re.compile(r"(?:pto2_)?rt_submit_(?P<core>ai[cv])_task\s*\(\s*(?P<func>\d{1,6})\s*,")
_WHOLE = re.compile(r"[A-Za-z_]\w*")
#: A variable: neither a function nor a type.
_NAME = re.compile(r"\b(?!\w+_t\b|float\b|int\b)[A-Za-z_]\w*\b(?!\s*\()")
_TENSOR = re.compile(r"\bconst\s+(?:ChipTensor|Tensor)\s*&\s*(\w+)\s*=")
_SCALAR = re.compile(r"\b(\w+)\s+(\w+)\s*=\s*from_u64\s*<[^>]*>\s*\(\s*orch_args\s*\.\s*scalar\(")


@dataclass(frozen=True)
class Passage:
    """A part of the text: its offsets, and its content."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Trial:
    """An edit: the passages with their new texts, and its description."""

    what: str
    changes: tuple[tuple[Passage, str], ...]

    def applied(self, text: str) -> str:
        """Return the text with the edit."""
        for span, value in sorted(self.changes, key=lambda change: -change[0].start):
            text = text[: span.start] + value + text[span.end :]
        return text


@dataclass(frozen=True)
class _Argument:
    """A statement that adds an argument to a list."""

    owner: str
    method: str
    value: str
    statement: Passage

    def with_value(self, value: str) -> str:
        """Return the statement with another value."""
        call, _, rest = self.statement.text.partition("(")
        before, _, after = rest.partition(self.value)
        return f"{call}({before}{value}{after}"


def trials(text: str, kernels: Sequence[KernelInterface] = ()) -> list[Trial]:
    """Return the edits of an orchestration's `text` that submits `kernels`. Edits of frequent mistakes come first."""
    plain = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    arguments = [
        _Argument(match["list"], match["method"], match["value"].strip(), Passage(match.start(), match.end(), match[0]))
        for match in _ADD.finditer(plain)
    ]
    found = [*_exchanges(arguments, plain), *_loops(plain), *_omissions(plain)]
    found += [*_kernels(plain, kernels), *_replacements(arguments, plain)]
    return found[:MOST]


def _span(match: re.Match[str], group: str) -> Passage:
    return Passage(match.start(group), match.end(group), match[group])


def _known(value: str, at: int, plain: str) -> bool:
    """Return whether all variables of a value occur in the text before an offset."""
    return all(re.search(rf"\b{name}\b", plain[:at]) for name in _NAME.findall(value))


def _exchanges(arguments: Sequence[_Argument], plain: str) -> Iterator[Trial]:
    """Yield edits that exchange two inputs, or two scalars, of one submission."""
    for number, one in enumerate(arguments):
        for other in arguments[number + 1 :]:
            alike = one.method == other.method == "scalar" or {one.method, other.method} <= {*_TENSORS}
            if other.owner != one.owner or one.value == other.value or not alike:
                continue
            if _known(other.value, one.statement.start, plain):
                changes = (
                    (one.statement, one.with_value(other.value)),
                    (other.statement, other.with_value(one.value)),
                )
                yield Trial(f"{one.value} and {other.value} exchanged", changes)


def _loops(plain: str) -> Iterator[Trial]:
    """Yield edits that begin or end a loop one step earlier or later."""
    for match in _FOR.finditer(plain):
        step = int(match["step"] or 1)
        first, end = int(match["first"]), int(match["end"])
        for words, group, value in (
            ("ends a step later", "end", end + step),
            ("ends a step earlier", "end", end - step),
            ("begins a step earlier", "first", first - step),
            ("begins a step later", "first", first + step),
        ):
            if value >= 0:
                yield Trial(f"a loop that {words}", ((_span(match, group), str(value)),))


def _omissions(plain: str) -> Iterator[Trial]:
    """Yield edits that leave out one submission, which may be there twice by mistake."""
    for match in _SUBMIT.finditer(plain):
        yield Trial("this submission left out", ((_span(match, "call"), ""),))


def _kernels(plain: str, kernels: Sequence[KernelInterface]) -> Iterator[Trial]:
    """Yield edits that submit another kernel of the same core type and signature."""
    known = {kernel.func_id: kernel for kernel in kernels}
    for match in _SUBMIT.finditer(plain):
        alone = _KERNEL.match(match["call"])
        given = known.get(int(alone["func"])) if alone else None
        if alone is None or given is None or given.core_type != alone["core"]:
            continue
        before, after = match["call"][: alone.start("func")], match["call"][alone.end("func") :]
        for other in kernels:
            if other is not given and (other.core_type, other.signature) == (given.core_type, given.signature):
                words = f"kernel {other.name} in place of {given.name}"
                yield Trial(words, ((_span(match, "call"), f"{before}{other.func_id}{after}"),))


def _replacements(arguments: Sequence[_Argument], plain: str) -> Iterator[Trial]:
    """Yield edits that replace a scalar or an input by another of the orchestration's values or arguments."""
    scalars = [f"to_u64({name})" if kind == "float" else name for kind, name in _SCALAR.findall(plain)]
    scalars += [argument.value for argument in arguments if argument.method == "scalar"]
    # Only whole tensors are used: a view may belong to another block.
    tensors = [item.value for item in arguments if item.method in _TENSORS and _WHOLE.fullmatch(item.value)]
    tensors += _TENSOR.findall(plain)
    for kinds, values in ((("scalar",), dict.fromkeys(scalars)), (_TENSORS, dict.fromkeys(tensors))):
        for argument in arguments:
            for value in values if argument.method in kinds else ():
                if value != argument.value and _known(value, argument.statement.start, plain):
                    change = (argument.statement, argument.with_value(value))
                    yield Trial(f"{value} in place of {argument.value}", (change,))


def with_choice(text: str, tried: Sequence[Trial]) -> str:
    """Return the text with all trials in it. The number n, counted from 1, chooses the n-th trial."""
    alternatives: dict[Passage, list[tuple[int, str]]] = {}
    for number, trial in enumerate(tried, 1):
        for span, value in trial.changes:
            alternatives.setdefault(span, []).append((number, value))
    for span in sorted(alternatives, key=lambda span: -span.start):
        chosen = alternatives[span]
        if span.text.endswith(";"):
            cases = "".join(f"if ({CHOICE} == {number}) {{ {value} }} else " for number, value in chosen)
            new = f"{{ {cases}{{ {span.text} }} }}"
        else:
            choices = "".join(f"{CHOICE} == {number} ? ({value}) : " for number, value in chosen)
            new = f"({choices}({span.text}))"
        text = text[: span.start] + new + text[span.end :]
    return f'extern "C" {{ __attribute__((visibility("default"))) volatile int {CHOICE} = 0; }}\n{text}'


def edits_of(trial: Trial, text: str, path: str) -> tuple[Edit, ...]:
    """Return a trial as edits of lines, or nothing if it changes the number of lines."""
    before, after = text.splitlines(), trial.applied(text).splitlines()
    pairs = enumerate(zip(before, after, strict=True), 1) if len(before) == len(after) else ()
    return tuple(Edit(path, line, old.strip(), new.strip()) for line, (old, new) in pairs if old != new)


def line_of(trial: Trial, text: str) -> int:
    """Return the first line that a trial edits."""
    return text.count("\n", 0, min(span.start for span, _ in trial.changes)) + 1
