"""Host callables: Python functions of an artifact that run between dispatches, on host tensors as torch has them."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_build.artifact.errors import require_torch
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.chips.dispatches import Dispatch
from pypto_build.replay.chips.rank import RankReply
from pypto_build.replay.chips.stand_ins import stand_ins
from pypto_build.replay.chips.tensors import HostTensor
from pypto_build.runtime.faults import RuntimeFault, python_fault

if TYPE_CHECKING:
    import torch


def call_host(files: Mapping[str, Path], dispatch: Dispatch) -> RankReply:
    """Call the function named after its file, with the dispatch's tensors and then its scalars; it writes in place. A
    function that the compiler wrapped, whose only parameter is ``args``, gets them as a list.

    Raises `RuntimeFault` with file and line for any exception of the function.
    """
    require_torch("sub_workers/")
    path = files[dispatch.program]
    namespace: dict[str, Any] = {"__name__": dispatch.program, "__file__": str(path)}
    try:
        with stand_ins(torch=False):
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
        function = namespace.get(dispatch.program)
        if not callable(function):
            raise TypeError(f"defines no function '{dispatch.program}'")
        given = [*(as_torch(item.tensor) for item in dispatch.tensors), *dispatch.scalars]
        wrapped = list(inspect.signature(function).parameters) == ["args"]
        function(*([given] if wrapped else given))
    except Exception as error:
        raise RuntimeFault(_fault(path, error)) from None
    finally:
        sys.stdout.flush()  # the process ends without
    return RankReply()


def as_torch(tensor: HostTensor) -> torch.Tensor:
    """Return a torch tensor on the same memory."""
    import torch

    storage = (ctypes.c_char * max(tensor.storage.nbytes, 1)).from_address(tensor.storage.address)
    whole = torch.frombuffer(storage, dtype=getattr(torch, tensor.dtype))
    return whole.as_strided(tensor.shape, tensor.strides, tensor.offset)


def _fault(path: Path, error: Exception) -> Any:
    import traceback

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = f":{lines[-1]}" if lines else ""
    text = f"sub_workers/{path.name}{line}: {type(error).__name__}: {error}"
    if getattr(error, "says_where", False):  # the function of a scene test, in another file
        text = str(error)
    return python_fault(FaultKind.DRIVER, text, hint="correct the host callable")
