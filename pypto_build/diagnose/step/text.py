"""View of a step as plain lines; the same for all front ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.step.record import Scalar, TaskTensor
from pypto_build.diagnose.step.session import Contents, KernelStep, Operand, Session, Stepped, location_text
from pypto_build.diagnose.why.trace import Array, Instruction
from pypto_build.pto import Function, PtoError, parse_file
from pypto_build.pto.torch.writer import sanitize

# Numbers in variables of the kernel, and those that the module's PyTorch has for them.
# Compilers number their variables, so the two sides are matched by position. Parameters of the kernel's function
# match arguments of the module's, and loops match in the order of the text. Other variables match by equal names.


@dataclass(frozen=True)
class ScalarValue:
    """A number of the kernel, of the module, or of both; `theirs` is the name of the module's."""

    name: str
    value: float | int | None
    theirs: str = ""
    expected: float | int | None = None

    @property
    def line(self) -> str:
        """For people."""
        if self.value is None:
            return f"{self.theirs} = {_text(self.expected)} in PyTorch"
        if self.expected is None:
            return f"{self.name} = {_text(self.value)}"
        same = self.value == self.expected or (self.value != self.value and self.expected != self.expected)
        beside = f"{self.theirs} = {_text(self.expected)} in PyTorch"
        return f"{self.name} = {_text(self.value)}, {beside}" + ("" if same else "   <-- differs")


def _text(value: float | int | None) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def scalars_at(now: Stepped, at: int) -> list[ScalarValue]:
    """Return all numbers at a step: first those of the kernel, then those that only the module has."""
    theirs = now.module_scalars(at)
    names = _names(now)
    values, used = [], set()
    for variable in now.variables(at):
        if variable.holds not in ("signed", "unsigned", "real"):
            continue
        name = names.get(variable.name, sanitize(variable.name))
        expected = theirs.get(name)
        used.add(name)
        values.append(ScalarValue(variable.name, variable.value, f"%{name}", expected))
    values += [ScalarValue("", None, f"%{name}", value) for name, value in theirs.items() if name not in used]
    return values


def _names(now: Stepped) -> dict[str, str]:
    """The module's names of the kernel's variables, as its PyTorch spells them."""
    function, compiled = _function(now), now.call.compiled
    if function is None or compiled is None or function.body is None:
        return {}
    loops = [op for op in function.body.walk() if op.name == "scf.for"]
    induction = [op.regions[0].args[0][0] if op.regions and op.regions[0].args else "" for op in loops]
    names: dict[str, str] = {}
    for theirs, mine in (
        ([argument.name for argument in function.args], compiled.parameters.get(function.name, [])),
        (induction, compiled.loops.get(function.name, [])),
    ):
        if len(theirs) == len(mine):
            names.update({one: sanitize(other) for one, other in zip(mine, theirs, strict=True)})
    return names


def _function(now: Stepped) -> Function | None:
    """The module's function that the kernel was made from."""
    if not now.call.module or now.call.compiled is None:
        return None
    try:
        module = parse_file(str(now.recording.artifact / now.call.module))
    except PtoError:
        return None
    named = [function for function in module.functions() if function.name in now.call.compiled.parameters]
    return named[0] if len(named) == 1 else None


# Pipes and flags at a step: what the device would know to be over, as the flags and barriers so far say.


@dataclass
class Flag:
    """A flag between two pipes, with the step that last set it and the step that waited for it then. A missing step is
    -1.
    """

    source: str
    target: str
    id: int
    set: int = -1
    waited: int = -1


@dataclass
class Pipe:
    """A pipe: how many instructions it was given, the last step, and up to which step it is ordered after others."""

    name: str
    count: int
    last: int
    knows: list[tuple[str, int]]


def flags_at(now: Stepped, at: int) -> list[Flag]:
    """Return all flags that were set or waited for up to a step. Flags that are set and not waited for come first."""
    flags: dict[tuple[str, str, int], Flag] = {}
    for step in now.steps[: at + 1]:
        event = step.event
        if isinstance(event, Instruction) or event.name not in ("set_flag", "wait_flag"):
            continue
        flag = flags.setdefault((event.source, event.target, event.id), Flag(event.source, event.target, event.id))
        if event.name == "set_flag":
            flag.set, flag.waited = step.number, -1
        else:
            if flag.waited >= 0:
                flag.set = -1  # it was used up
            flag.waited = step.number
    return sorted(flags.values(), key=lambda flag: (flag.waited >= 0 and flag.set >= 0, flag.set))


def pipes_at(now: Stepped, at: int) -> list[Pipe]:
    """Pipes with instructions up to this step, in the order in which they began."""
    clocks: dict[str, dict[str, int]] = {}  # of each pipe, the last step of each pipe that it comes after
    flags: dict[tuple[str, str, int], dict[str, int]] = {}
    pipes: dict[str, Pipe] = {}
    for step in now.steps[: at + 1]:
        event = step.event
        if isinstance(event, Instruction):
            pipe = pipes.setdefault(event.pipe, Pipe(event.pipe, 0, step.number, []))
            pipe.count, pipe.last = pipe.count + 1, step.number
            clocks.setdefault(event.pipe, {})[event.pipe] = step.number
        elif event.name == "set_flag":
            flags[event.source, event.target, event.id] = dict(clocks.get(event.source, {}))
        elif event.name == "wait_flag":
            _merge(clocks.setdefault(event.target, {}), flags.pop((event.source, event.target, event.id), {}))
        elif event.name == "pipe_barrier" and event.source == "ALL":
            everything: dict[str, int] = {}
            for clock in clocks.values():
                _merge(everything, clock)
            for clock in clocks.values():
                _merge(clock, everything)
    for name, pipe in pipes.items():
        pipe.knows = [(other, number) for other, number in clocks[name].items() if other != name]
    return list(pipes.values())


def _merge(clock: dict[str, int], other: dict[str, int]) -> None:
    for name, number in other.items():
        clock[name] = max(clock.get(name, -1), number)


#: Rows and columns of a matrix that are shown unless others are asked for; elements that differ; steps listed around.
_ROWS, _COLS, _DIFFERENT, _AROUND = 8, 8, 8, 5


def step_line(now: Stepped, step: KernelStep, mark: str = " ") -> str:
    """`> #12  TADD#4         V     kernels/aiv/k.cpp:69   TADD(v17, v7, v13);`"""
    position = f"{step.path.rpartition('/')[2]}:{step.line}" if step.line else ""
    pipe = getattr(step.event, "pipe", "")
    wrong = now.differs(step)
    differs = f"   <-- {wrong} elements differ" if wrong else ""
    number = f"#{step.number}"
    return f"{mark} {number:<6}{step.label:<18}{pipe:<5} {position:<24} {_cut(now.text(step))}{differs}".rstrip()


def where_lines(session: Session) -> Iterator[str]:
    """Return lines about the current step: its source line, the difference, its line of the module, its operands."""
    now, step = session.now, session.step
    yield f"{step_line(now, step, '>')}"
    yield from difference_lines(session)
    if step.pto_line:
        yield f"  {now.call.module}:{step.pto_line}  {_cut(now.pto_text(step), 110)}"
    yield from operand_lines(session)


def difference_lines(session: Session) -> Iterator[str]:
    """Say how the step differs from the module."""
    now, step = session.now, session.step
    if now.differs(step):
        tile = now.operands(step)[0].tile
        assert tile is not None
        yield f"  {_difference(now, now.tile(tile.operand, step.number))}"
    instead = now.call.expected.instead.get(getattr(step.event, "number", -1))
    if instead:
        yield f"  the module has {instead} here"


def operand_lines(session: Session) -> Iterator[str]:
    """The operands of the step."""
    for operand in session.now.operands(session.step):
        yield f"  {_operand_line(session, operand)}"


def _operand_line(session: Session, operand: Operand) -> str:
    name = f"{operand.role:<5} {operand.name:<10}"
    if operand.tile is None:
        view = operand.view
        assert view is not None
        where = _tensor_at(session, int(view.addresses.flat[0])) if view.addresses.size else "nothing"
        return f"{name} global memory: {where}, {' x '.join(map(str, view.addresses.shape))}"
    values = operand.tile.values
    return f"{name} {location_text(operand.tile.operand)}  {_range(values)}"


def _tensor_at(session: Session, address: int) -> str:
    """`'a' from [0, 64]`, the first element of a view."""
    for argument in session.recording.arguments.values():
        if isinstance(argument, TaskTensor):
            slot = argument.tensor
            if slot.buffer <= address < slot.buffer + max(slot.size, 1):
                return f"'{argument.name}' from byte {address - slot.buffer}"
    return "no tensor of the task"


def _range(values: Array) -> str:
    if not values.size:
        return "empty"
    low, high = values.min(), values.max()
    return f"{_number(low)} to {_number(high)}" if low != high else f"all {_number(low)}"


def _difference(now: Stepped, contents: Contents) -> str:
    wrong = now.wrong(contents)
    count = int(np.count_nonzero(wrong))
    if not count:
        return "as in PyTorch" if contents.has_reference.any() else "PyTorch does not tell of it"
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    mine, theirs = _number(contents.values[first]), _number(contents.expected[first])
    distance = np.abs(contents.values[wrong].astype(np.float64) - contents.expected[wrong])
    return (
        f"first wrong [{', '.join(map(str, first))}]: {mine}, PyTorch {theirs}; "
        f"{count} of {wrong.size} differ by up to {_number(np.nanmax(distance))}"
    )


def list_lines(session: Session, around: int = _AROUND) -> Iterator[str]:
    """Yield the steps around the current step."""
    now = session.now
    for step in now.steps[max(session.at - around, 0) : session.at + around + 1]:
        yield step_line(now, step, ">" if step.number == session.at else " ")


# --- printing ---------------------------------------------------------------------------------------------------------


_WANTED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\[(?P<part>[^\]]*)\])?\s*(?P<before>before)?")


def print_lines(session: Session, text: str) -> Iterator[str]:
    """`v17`, `v17[3, 0:8]`, `dst`, `src1 before`, a tensor of the task, a scalar. Raises ArtifactError."""
    match = _WANTED.fullmatch(text.strip())
    if match is None:
        raise ArtifactError(
            "", f"'{text}' cannot be printed", "name a tile or scalar: v17, v17[3, 0:8], dst, src0 before"
        )
    name, part, before = match["name"], match["part"], bool(match["before"])
    scalar = _scalar(session, name)
    if scalar:
        yield scalar
        return
    title, contents = _shown(session, name, before)
    yield f"{title}  {'before' if before else 'after'} #{session.at} {session.step.label}"
    yield f"  {_difference(session.now, contents)}"
    yield from (f"  {line}" for line in matrix_lines(session.now, contents, part))


def _scalar(session: Session, name: str) -> str:
    for one in scalars_at(session.now, session.at):
        if one.name == name:
            return one.line
    for argument in session.recording.arguments.values():
        if isinstance(argument, Scalar) and argument.name == name:
            return _scalar_text(argument)
    return ""


def _scalar_text(scalar: Scalar) -> str:
    return f"{scalar.name} = {_number(scalar.value)} ({scalar.type}), a scalar of the task"


def _shown(session: Session, name: str, before: bool) -> tuple[str, Contents]:
    """Return a tile or tensor that is named by its variable or by its role in the instruction. Raises ArtifactError."""
    now, at = session.now, session.at
    if re.fullmatch(r"(dst|src|tmp)\d?", name) and name not in now.variable_events:
        roles = [operand.role for operand in now.operands(session.step) if operand.tile is not None]
        if name not in (*roles, *(f"{role}0" for role in roles)):
            raise ArtifactError(
                "",
                f"{session.step.label} has no operand '{name}'",
                f"its operands are {', '.join(roles) or 'no tiles'}",
            )
    for operand in now.operands(session.step):
        if name in (operand.role, f"{operand.role}0") and operand.tile is not None:
            title = f"{operand.role} {operand.name}".strip()
            return f"{title}  {location_text(operand.tile.operand)}", now.tile(operand.tile.operand, at, before)
    variable = now.variable(name, at)
    if variable is not None and variable.tile is not None:
        return f"{name}  {location_text(variable.tile)}", now.tile(variable.tile, at, before)
    address = int(variable.value) if variable is not None and variable.holds in ("view", "pointer") else -1
    for argument in session.recording.arguments.values():
        if isinstance(argument, TaskTensor):
            slot = argument.tensor
            if argument.name == name or slot.buffer <= address < slot.buffer + slot.size:
                shape = "x".join(map(str, slot.shape)) or "1"
                return f"'{argument.name}'  {shape} {slot.dtype}", now.tensor(argument, at, before)
    names = [*now.variable_events, *(argument.name for argument in session.recording.arguments.values())]
    names_of_call = ", ".join(dict.fromkeys(names)) or "none"
    hint = "the variable has no value yet" if name in now.variable_events else f"the names here are {names_of_call}"
    raise ArtifactError("", f"'{name}' is not a tile, tensor or scalar at this step", hint)


def matrix_lines(now: Stepped, contents: Contents, part: str | None = None) -> Iterator[str]:
    """Rows and columns; below an element that differs what PyTorch has. The first to differ unless a part is named."""
    values = contents.values
    if values.ndim != 2:
        contents = _as_matrix(contents)
        values = contents.values
    wrong = now.wrong(contents)
    rows, cols = _part(part, values.shape, wrong)
    cells = [[_cell(contents, wrong, r, c) for c in cols] for r in rows]
    below = [[_number(contents.expected[r, c]) if wrong[r, c] else "" for c in cols] for r in rows]
    heads = [str(c) for c in cols]
    columns = range(len(cols))
    widths = [max([len(heads[i]), *(len(row[i]) for row in (*cells, *below))], default=0) for i in columns]
    label = max([len("PyTorch") if any(map(any, below)) else 3, *(len(f"[{r}]") for r in rows)])
    yield " " * label + "  " + "  ".join(h.rjust(w) for h, w in zip(heads, widths, strict=True))
    for r, row, expected in zip(rows, cells, below, strict=True):
        yield f"[{r}]".ljust(label) + "  " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True))
        if any(expected):
            yield (
                "PyTorch".rjust(label)
                + "  "
                + "  ".join(c.rjust(w) for c, w in zip(expected, widths, strict=True)).rstrip()
            )
    left = values.size - len(rows) * len(cols)
    if left and part is None:
        yield f"… {left:,} more of {values.shape[0]} x {values.shape[1]}; name a part, such as [0:16, 0:16]"


def _as_matrix(contents: Contents) -> Contents:
    width = contents.values.shape[-1] if contents.values.ndim else 1
    parts = (contents.values, contents.filled, contents.expected, contents.has_reference)
    values, filled, expected, has_reference = (part.reshape(-1, max(width, 1)) for part in parts)
    return Contents(contents.dtype, values, filled, expected, has_reference)


def _part(part: str | None, shape: tuple[int, ...], wrong: Array) -> tuple[range, range]:
    if part is None:
        row, col = (int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else (0, 0)
        row, col = (0 if row < _ROWS else row, 0 if col < _COLS else col)
        return range(row, min(row + _ROWS, shape[0])), range(col, min(col + _COLS, shape[1]))
    words = [word.strip() for word in part.split(",")]
    if len(words) != 2:
        raise ArtifactError("", f"[{part}] does not select a part of a matrix", "give rows and columns: [3, 0:8]")
    ranges = []
    for word, extent in zip(words, shape, strict=True):
        match = re.fullmatch(r"(\d{0,9})(?:(:)(\d{0,9}))?", word)
        if match is None or not word:
            raise ArtifactError(
                "", f"[{part}]: '{word}' is neither an index nor a range", "write an index I or a range I:J"
            )
        first = int(match[1] or 0)
        last = int(match[3] or extent) if match[2] else first + 1
        if not 0 <= first < last <= extent:
            raise ArtifactError("", f"[{part}]: {word} is not within 0 to {extent - 1}", "give a smaller range")
        ranges.append(range(first, last))
    return ranges[0], ranges[1]


def _cell(contents: Contents, wrong: Array, row: int, col: int) -> str:
    if not contents.filled[row, col]:
        return "?"
    return _number(contents.values[row, col]) + ("!" if wrong[row, col] else "")


def _number(value: object) -> str:
    number = value.item() if isinstance(value, np.generic) else value
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def without_types(text: str) -> str:
    """Return a line of a module without the types of its operands."""
    return re.sub(r"\s*:\s*!pto\.[^)]*(?=\))", "", text)


def _cut(text: str, most: int = 72) -> str:
    """A line that fits: types of declarations and of modules are the long part, and say little."""
    text = without_types(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


# --- pipes, flags, scalars --------------------------------------------------------------------------------------------


def flag_lines(session: Session) -> Iterator[str]:
    """Yield the state of all flags. Flags that are set and not waited for come first."""
    now = session.now
    flags = flags_at(now, session.at)
    for flag in flags:
        state = f"set at #{flag.set} {_line(now, flag.set)}"
        state = f"not set, and waited for at #{flag.waited} {_line(now, flag.waited)}" if flag.set < 0 else state
        if flag.set >= 0:
            state += (
                f", waited for at #{flag.waited} {_line(now, flag.waited)}"
                if flag.waited >= 0
                else ", nobody has waited for it"
            )
        yield f"  {flag.source} -> {flag.target}  EVENT_ID{flag.id}  {state}"
    if not flags:
        yield "  no flag has been set yet"


def pipe_lines(session: Session) -> Iterator[str]:
    """Yield a line for each active pipe: its instruction count, its last one, and the instructions it waited for."""
    now = session.now
    for pipe in pipes_at(now, session.at):
        last = now.steps[pipe.last]
        others = ", ".join(f"{name} up to #{number}" for name, number in pipe.knows)
        waits = f"; ordered after {others}" if others else ""
        count = f"{pipe.count} instruction{'s' if pipe.count > 1 else ''}"
        yield f"  {pipe.name:<5} {count}, the last #{pipe.last} {last.label} {_line(now, pipe.last)}{waits}"


def _line(now: Stepped, number: int) -> str:
    step = now.steps[number]
    return f"(line {step.line})" if step.line else ""


def scalar_lines(session: Session) -> Iterator[str]:
    """Numbers that variables hold, the module's beside them."""
    values = scalars_at(session.now, session.at)
    yield from (f"  {one.line}" for one in values)
    for argument in session.recording.arguments.values():
        if isinstance(argument, Scalar):
            yield f"  {_scalar_text(argument)}"


def tile_lines(session: Session) -> Iterator[str]:
    """Yield a line for each tile with an address: its range of values, and the difference from PyTorch."""
    now = session.now
    for variable in now.variables(session.at):
        if variable.tile is None:
            continue
        contents = now.tile(variable.tile, session.at)
        heading = f"  {variable.name:<10} {location_text(variable.tile)}  "
        if contents.filled.any():
            yield f"{heading}{_range(contents.values[contents.filled])}  {_difference(now, contents)}"
        else:
            yield f"{heading}not written"
