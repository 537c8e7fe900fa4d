"""One .pto function of a kernel whose addresses are planned: views, allocations, instructions."""

from __future__ import annotations

from .ir import Dim, Op, TensorParam
from .memory import SIDES
from .pto_lowering import SPECIAL
from .pto_pipes import PIPE_OPS, open_pipe
from .pto_scalars import scalar_op
from .pto_writer import PtoWriter, view_type
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
        for extent, _, _ in signature.extents:
            name = f"%arg{len(arguments)}"
            self.text.names[extent] = name
            arguments.append(f"{name}: index")
        arguments += [f"%{LAUNCH_IDS[name]}: i32" for name in signature.launch_ids]
        return arguments

    def views(self) -> None:
        """A view of every tensor that tiles are moved from or to."""
        used = {
            op.ref(0 if op.name == "load" else 2).name
            for op in self.function.body.walk()
            if op.name in ("load", "store")
        }
        for param in self.function.tensors():
            if param.name not in used or param.name == GM_PIPE_BUFFER:
                continue
            shape = [self.text.extent(d) for d in param.type.shape]
            column = len(shape) == 2 and param.type.shape[1] == 1
            strides = [self.text.constant(1), shape[0]] if column else self.strides(param.type.shape)
            layout = "dn" if column else "nd"
            self.text.add(
                f"%{param.name}_view = pto.make_tensor_view {self.pointers[param.name]}, shape = [{', '.join(shape)}], "
                f"strides = [{', '.join(strides)}] {{layout = #pto.layout<{layout}>}} : {view_type(param.type)}"
            )

    def strides(self, shape: tuple[Dim, ...]) -> list[str]:
        """Row-major strides; products of dynamic extents are computed."""
        strides = [self.text.constant(1)]
        known: int | None = 1
        for extent in reversed(shape[1:]):
            if known is not None and isinstance(extent, int):
                known *= extent
                strides.append(self.text.constant(known))
                continue
            if known == 1:
                strides.append(self.text.extent(extent))
            else:
                name = self.text.fresh()
                self.text.add(f"{name} = arith.muli {strides[-1]}, {self.text.extent(extent)} : index")
                strides.append(name)
            known = None
        return list(reversed(strides))

    def op(self, op: Op) -> None:
        if op.name.startswith("s."):
            scalar_op(self.text, op, self.values)
            return
        special = SPECIAL.get(op.name) or PIPE_OPS.get(op.name)
        if special is not None:
            special(self, op)
            return
        self.instruction(op)
