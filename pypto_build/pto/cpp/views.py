"""Views of global memory: a pointer with extents and strides, spelled as a GlobalTensor where an instruction takes
one."""

from __future__ import annotations

from dataclasses import dataclass, replace

Extent = int | str  # known, or the C++ expression that has it


@dataclass(frozen=True)
class GlobalView:
    """`pointer` is a C++ expression, `element` the C++ element type; `layout` is ND, DN or NZ.

    `variable` is the GlobalTensor that has it already, whose place a pipe may change.
    """

    pointer: str
    element: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    layout: str = "ND"
    variable: str = ""

    def window(self, offsets: tuple[Extent, ...], sizes: tuple[Extent, ...]) -> GlobalView:
        """The part of `sizes` at `offsets`."""
        terms = [times(o, s) for o, s in zip(offsets, self.strides, strict=True)]
        return replace(self, pointer=plus(self.pointer, *terms), shape=sizes, variable="")

    def components(self) -> list[tuple[str, str]]:
        """(C++ type, expression) of everything needed to carry the view through a loop or branch."""
        extents = [("int64_t", str(extent)) for extent in (*self.shape, *self.strides)]
        return [(f"__gm__ {self.element}*", self.pointer), *extents]

    def rebuilt(self, names: list[str]) -> GlobalView:
        """The same kind of view, made of carried components."""
        rank = len(self.shape)
        shape, strides = tuple(names[1 : 1 + rank]), tuple(names[1 + rank :])
        return replace(self, pointer=names[0], shape=shape, strides=strides, variable="")

    def declaration(self, name: str) -> str:
        """`GlobalTensor<…> name(pointer, shape, stride);`, five extents, the known ones in the type."""
        lead = 5 - len(self.shape)
        outer = times(self.shape[0], self.strides[0]) if self.shape else 1
        outer = outer if isinstance(outer, int) else self.strides[0]
        shape = _extents("pto::Shape", (*[1] * lead, *self.shape))
        stride = _extents("pto::Stride", (*[outer] * lead, *self.strides))
        kind = f"GlobalTensor<{self.element}, {shape[0]}, {stride[0]}, pto::Layout::{self.layout}>"
        return f"{kind} {name}({self.pointer}, {shape[0]}({shape[1]}), {stride[0]}({stride[1]}));"


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a tensor without gaps."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[: len(shape)])


def _extents(name: str, extents: tuple[Extent, ...]) -> tuple[str, str]:
    """The type with -1 for extents that are expressions, and those expressions."""
    fixed = ", ".join(str(e) if isinstance(e, int) else "-1" for e in extents)
    return f"{name}<{fixed}>", ", ".join(e for e in extents if isinstance(e, str))


def times(a: Extent, b: Extent) -> Extent:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if a == 1:
        return b
    if b == 1:
        return a
    return f"{a} * {b}"


def plus(pointer: str, *terms: Extent) -> str:
    """Return `pointer` moved by the sum of the terms."""
    constant = sum(t for t in terms if isinstance(t, int))
    parts = [t if "*" in t or t.isidentifier() else f"({t})" for t in terms if isinstance(t, str)]
    if constant:
        parts.append(str(constant))
    if not parts:
        return pointer
    base = pointer if pointer.isidentifier() else f"({pointer})"
    return f"{base} + ({' + '.join(parts)})" if len(parts) > 1 else f"{base} + {parts[0]}"
