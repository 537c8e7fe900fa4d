"""Checks the attributes ``signature=`` and ``golden=`` of a replay test against its artifact, when the artifact is
read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.interface import Param
from pypto_build.artifact.snapshot import goldens_in

_DIRECTIONS = ("IN", "OUT", "INOUT")


def check_contract(
    params: Sequence[Param], test: str, signature: Sequence[str] | Mapping[str, str] | None, golden: Path | None
) -> None:
    """Raise for a test whose signature or goldens contradict its artifact, which has these ``params``.

    Raises:
        ArtifactError: names the attribute, and what the artifact has instead.
    """
    tensors = [param for param in params if param.kind == "tensor"]
    if signature:
        _check_signature(tensors, test, signature)
    if golden:
        _check_golden(tensors, test, golden)


def _check_signature(tensors: Sequence[Param], test: str, signature: Sequence[str] | Mapping[str, str]) -> None:
    has = {param.name: (param.direction or "OUT or INOUT").upper() for param in tensors}
    listed = ", ".join(f"{name}: {direction}" for name, direction in has.items())
    expected = dict(signature) if isinstance(signature, Mapping) else dict(zip(has, signature, strict=False))
    wrong = [word for word in expected.values() if str(word).upper() not in _DIRECTIONS]
    if wrong:
        raise ArtifactError(
            f"{test}: signature", f"{wrong[0]!r} is not a direction", f"use one of {', '.join(_DIRECTIONS)}"
        )
    if len(signature) != len(has):
        number = f"has {len(signature)} tensor{'' if len(signature) == 1 else 's'}, the artifact {len(has)}"
        raise ArtifactError(f"{test}: signature", number, f"declare it as the artifact does: {listed}")
    for name, word in expected.items():
        direction = str(word).upper()
        if name not in has or direction not in has[name].split(" or "):
            there = f"it is {has[name]} in the artifact" if name in has else "the artifact has no such parameter"
            raise ArtifactError(
                f"{test}: signature",
                f"'{name}' is {direction}, and {there}",
                f"declare it as the artifact does: {listed}",
            )


def _check_golden(tensors: Sequence[Param], test: str, golden: Path) -> None:
    if not golden.is_dir():
        raise ArtifactError(
            f"{test}: golden", f"{golden} is not a directory", "name a directory with a .pt file for each output"
        )
    golden = goldens_in(golden)
    outputs = [param.name for param in tensors if (param.direction or "").upper() != "IN"]
    files = sorted(path.stem for path in golden.glob("*.pt"))
    if strange := [name for name in files if name not in outputs]:
        listed = ", ".join(outputs) or "none"
        raise ArtifactError(
            f"{test}: golden", f"{golden}/{strange[0]}.pt belongs to no output", f"remove it; the outputs are {listed}"
        )
    if lacking := [name for name in outputs if name not in files]:
        raise ArtifactError(
            f"{test}: golden", f"{golden} has no {lacking[0]}.pt", "save the golden of that output there"
        )
