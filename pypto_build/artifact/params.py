"""The entry's parameters as one table: declared names and types where the compiler left them, the code's otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from .records import ArgDirection, Artifact, MetaParam, Signature
from .shapes import Extent

if TYPE_CHECKING:
    from .derive import Argument, Derived


class Param(msgspec.Struct, frozen=True):
    """One parameter of the entry; ``index`` counts among its kind (``orch_args.tensor(index)``, ``.scalar(index)``).

    ``direction`` is null for a scalar, and for a written tensor without a declaration whether its old content matters.
    The snapshot decides then: a pure output has no file in ``data/in``.
    """

    name: str
    kind: str
    index: int
    direction: str | None
    dtype: str | None
    shape: tuple[Extent, ...] | None

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether a tensor of ``shape`` may be passed; -1 stands for any size, no shape for any."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            extent in (-1, size) for extent, size in zip(self.shape, shape, strict=True)
        )


def parameters(artifact: Artifact, derived: Derived) -> tuple[Param, ...]:
    """Return all tensors, then all scalars.

    Names, types and shapes come from ``compiled_meta.json``, else from the variables of the code. Directions come from
    the manifest, else from ``compiled_meta.json``, else from the code. Their number is declared as well: code that
    reads more is faulty, which the run finds.
    """
    meta = artifact.meta
    tensors = _table("tensor", derived.tensors, meta.tensors if meta else None, artifact.orchestration.signature or ())
    scalars = _table("scalar", derived.scalars, meta.scalars if meta else None, ())
    return _distinct((*tensors, *scalars))


def orchestration_signature(params: Sequence[Param]) -> Signature:
    """Directions of the tensor parameters, in ``tensor(i)`` order; INOUT, which is always right, where in doubt."""
    return tuple(ArgDirection[p.direction or "INOUT"] for p in params if p.kind == "tensor")


def _table(
    kind: str, used: Sequence[Argument], declared: Sequence[MetaParam] | None, signature: Signature
) -> tuple[Param, ...]:
    rows: list[Param] = []
    for index in range(max(len(used) if declared is None else len(declared), len(signature))):
        argument = used[index] if index < len(used) else None
        param = declared[index] if declared and index < len(declared) else None
        name = param.name if param else argument.name if argument else ""
        rows.append(
            Param(
                name=name or f"{kind}{index}",
                kind=kind,
                index=index,
                direction=_direction(index, argument, param, signature) if kind == "tensor" else None,
                dtype=_dtype(argument, param),
                shape=param.shape if param else None,
            )
        )
    return tuple(rows)


def _dtype(argument: Argument | None, declared: MetaParam | None) -> str | None:
    """The declared element type, else that by which the code reads it, unless the data is to tell."""
    if declared is not None and (declared.dtype or declared.kind):
        return declared.dtype
    return argument.dtype if argument else None


def _direction(index: int, argument: Argument | None, declared: MetaParam | None, signature: Signature) -> str | None:
    """Return the declared direction of a tensor, else that of its uses in the code; an unused tensor is IN."""
    if index < len(signature):
        return signature[index].name
    if declared is not None:
        return declared.direction.name
    used = argument.direction if argument is not None else ArgDirection.IN
    return None if used is ArgDirection.INOUT else used.name


def _distinct(rows: tuple[Param, ...]) -> tuple[Param, ...]:
    """Every name once, since names are file names of the snapshot."""
    seen: set[str] = set()
    result: list[Param] = []
    for row in rows:
        name, count = row.name, 2
        while name in seen:
            name, count = f"{row.name}_{count}", count + 1
        seen.add(name)
        result.append(row if name == row.name else msgspec.structs.replace(row, name=name))
    return tuple(result)
