"""Numbers in variables of the kernel, and those that the module's PyTorch has for them.

Compilers number their variables, so the two sides are matched by position. Parameters of the kernel's function match
arguments of the module's, and loops match in the order of the text. Other variables match by equal names.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto_build.diagnose.step.session import Stepped
from pypto_build.pto import Function, PtoError, parse_file
from pypto_build.pto.torch.names import sanitize


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
    """All numbers at a step: those of the kernel, then those that only the module has."""
    theirs = now.module_scalars(at)
    names = _names(now)
    found, used = [], set()
    for variable in now.variables(at):
        if variable.holds not in ("signed", "unsigned", "real"):
            continue
        name = names.get(variable.name, sanitize(variable.name))
        expected = theirs.get(name)
        used.add(name)
        found.append(ScalarValue(variable.name, variable.value, f"%{name}", expected))
    found += [ScalarValue("", None, f"%{name}", value) for name, value in theirs.items() if name not in used]
    return found


def _names(now: Stepped) -> dict[str, str]:
    """The module's names of the kernel's variables, as its PyTorch spells them."""
    function, compiled = _function(now), now.call.compiled
    if function is None or compiled is None or function.body is None:
        return {}
    loops = [op for op in function.body.walk() if op.name == "scf.for"]
    induction = [op.regions[0].args[0][0] if op.regions and op.regions[0].args else "" for op in loops]
    found: dict[str, str] = {}
    for theirs, mine in (
        ([argument.name for argument in function.args], compiled.parameters.get(function.name, [])),
        (induction, compiled.loops.get(function.name, [])),
    ):
        if len(theirs) == len(mine):
            found.update({one: sanitize(other) for one, other in zip(mine, theirs, strict=True)})
    return found


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
