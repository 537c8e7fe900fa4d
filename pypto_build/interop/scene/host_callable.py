"""Host callables of a scene test of several chips: the file by which a replay calls one, and what that file calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pypto_build.interop.scene.faults import why
from pypto_build.interop.scene.loading import load_file, scene_classes
from pypto_build.interop.scene.memory import tensor_of
from pypto_build.interop.scene.recorder import TaskArgs

_TEXT = '''"""Host callable {name!r} of {scene}, a scene test."""


def {name}(*given):
    from pypto_build.interop.scene.host_callable import call

    call({file!r}, {scene!r}, {name!r}, given)
'''


class HostCallableFailed(Exception):
    """What a host callable raised, with the line of the test's file."""


def file_of(file: Path, class_name: str, name: str) -> str:
    """The text of ``sub_workers/NAME.py`` for a host callable of a class in ``file``."""
    return _TEXT.format(file=str(file), scene=class_name, name=name)


def call(file: str, class_name: str, name: str, given: Sequence[Any]) -> None:
    """Call a host callable with tensors of torch and, behind them, scalars. Raises `HostCallableFailed`."""
    args = TaskArgs()
    for value in given:
        if hasattr(value, "untyped_storage"):
            args.add_tensor(tensor_of(value))
        else:
            args.add_scalar(value)
    try:
        scene = next(found for found in scene_classes(load_file(Path(file))) if found.__name__ == class_name)
        entry = next(one for one in scene.CALLABLE["callables"] if one["name"] == name)
        entry["callable"](args)
    except Exception as error:
        raise HostCallableFailed(why(error, Path(file))) from None
