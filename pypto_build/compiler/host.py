"""A host program: its function and the chip programs that it dispatches, read and typed."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import check_entry
from .collectives import chip_directory
from .errors import CompileError, SourcePosition
from .flatten import flatten_calls
from .frontend import build_program, read_function
from .infer import Inference
from .ir import IrFunction, Program
from .language import JitFunction
from .pipeline import own_faults, run_passes
from .ssa import convert_to_ssa


@dataclass(frozen=True)
class HostProgram:
    """`function` dispatches `chips`, whose passes have run; `dumps` has each program after each pass, if wanted."""

    function: IrFunction
    chips: dict[str, Program]
    ranks: int
    platform: str


def build_host(entry: JitFunction, platform: str, dumps: dict[str, str] | None = None) -> HostProgram:
    """The host program `entry` and its chip programs, ready for emission. Raises CompileError."""
    chips: dict[str, Program] = {}
    inlined: dict[str, IrFunction] = {}

    def reach(jit: JitFunction, caller: SourcePosition) -> IrFunction:
        """Return the entry of a chip program, or an inline function."""
        if jit.kind == "inline":
            inlined.setdefault(jit.name, read_function(jit, reach))
            return inlined[jit.name]
        chip = chips.get(jit.name)
        if chip is None:
            chip_dumps: dict[str, str] | None = None if dumps is None else {}
            chips[jit.name] = chip = run_passes(build_program(jit, platform), chip_dumps)
            if dumps is not None and chip_dumps:
                dumps.update(
                    {f"next_levels/{chip_directory(jit.name)}/{name}": text for name, text in chip_dumps.items()}
                )
        return chip.entries[0]

    function = read_function(entry, reach)
    program = Program(entry.name, {**inlined, entry.name: function}, platform, function.position, entry.accepted)
    callees = {name: chip.entries[0] for name, chip in chips.items()}
    with own_faults("host", program):
        program = convert_to_ssa(flatten_calls(program))
        typed = Inference(program.functions[entry.name], callees).run()
        if not any(op.name == "call" for op in typed.body.walk()):
            raise CompileError(
                function.position, f"{entry.name} dispatches nothing", "call a @pl.jit function, device=rank"
            )
        check_entry(typed, callees)
    return HostProgram(typed, chips, entry.ranks, platform)
