"""One .pto function of a kernel whose addresses are planned: views, allocations, instructions."""

from __future__ import annotations

from .ir import Op, TensorParam
from .memory import SIDES
from .pto_lowering import SPECIAL
from .pto_pipes import PIPE_OPS, open_pipe
from .pto_ranks import RANK_OPS, viewed_here
from .pto_scalars import scalar_op
from .pto_writer import PtoWriter
from .signature import GM_PIPE_BUFFER, LAUNCH_IDS, signature_of


class FunctionEmitter(PtoWriter):
    def emit(self) -> list[str]:
        """The lines of the function, header and closing brace included."""
        arguments = self.arguments()
        self.text.position = self.function.position
        self.views()
        if self.function.pipe is not None:
            open_pipe(self, self.function.pipe)
        self.block(self.function.body)
        self.text.position = self.function.position
        kind = SIDES[self.function.core]
        header = (
            f"  func.func @{self.function.name}({', '.join(arguments)}) "
            f"attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{"
        )
        return [header, *self.text.header(), *self.text.lines, "  return", "  }"]

    # --- parameters --------------------------------------------------------------------------------------------------

    def arguments(self) -> list[str]:
        signature = signature_of(self.function)
        arguments: list[str] = []
        for param in (*signature.tensors, *signature.scalars):
            name = f"%arg{len(arguments)}"
            if isinstance(param, TensorParam):
                self.pointers[param.name] = name
                arguments.append(f"{name}: !pto.ptr<{param.type.dtype.pto}>")
            else:
                self.text.names[param.name] = name
                arguments.append(f"{name}: {param.type.dtype.pto}")
        for window in signature.contexts:
            name = self.contexts[window.name] = f"%arg{len(arguments)}"
            arguments.append(f"{name}: !pto.ptr<i64>")
        for extent, _, _ in signature.extents:
            name = f"%arg{len(arguments)}"
            self.text.names[extent] = name
            arguments.append(f"{name}: index")
        arguments += [f"%{LAUNCH_IDS[name]}: i32" for name in signature.launch_ids]
        return arguments

    def views(self) -> None:
        """A view of every tensor of this rank that tiles are moved from or to."""
        used = {name for op in self.function.body.walk() for name in viewed_here(op)}
        for param in self.function.tensors():
            if param.name in used and param.name != GM_PIPE_BUFFER:
                self.view(f"%{param.name}_view", self.pointers[param.name], param.type)

    def op(self, op: Op) -> None:
        if op.name.startswith("s."):
            scalar_op(self.text, op, self.values)
            return
        special = SPECIAL.get(op.name) or PIPE_OPS.get(op.name) or RANK_OPS.get(op.name)
        if special is not None:
            special(self, op)
            return
        self.instruction(op)
