"""Host callables of a scene test of several chips: writes the file that a replay calls, and executes the call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pypto_build.artifact.distributed import TEST_LINE
from pypto_build.artifact.paths import way_to
from pypto_build.interop.scene.faults import why
from pypto_build.interop.scene.loading import load_file, scene_classes
from pypto_build.interop.scene.memory import tensor_of
from pypto_build.interop.scene.recorder import MappedArgs

_TEXT = '''"""Host callable {name!r} of {scene}, a scene test."""

{test}


def {name}(*given):
    from pypto_build.interop.scene.host_callable import call

    call(__file__, _TEST, {scene!r}, {name!r}, given)
'''


class HostCallableFailed(Exception):
    """An exception of a host callable, with the line of the test's file."""

    says_where = True  # the text contains the line, so reporters need not add one


def file_of(file: Path, class_name: str, name: str, directory: Path) -> str:
    """Return the text of ``NAME.py`` for a host callable of a class; ``directory`` is the ``sub_workers`` of an
    artifact."""
    return _TEXT.format(test=TEST_LINE.format(way_to(file, directory)), scene=class_name, name=name)


def call(caller: str, test: str, class_name: str, name: str, given: Sequence[Any]) -> None:
    """Call a host callable with torch tensors and then scalars, or with simpler's form of arguments. ``test`` is the
    path of its file, relative to the directory of ``caller``. Raises `HostCallableFailed`."""
    file = os.path.normpath(os.path.join(os.path.dirname(caller), test))
    of_simpler = len(given) == 1 and hasattr(given[0], "tensor_count")
    try:
        module = load_file(Path(file), with_stand_ins=not of_simpler)
        scene = next(found for found in scene_classes(module) if found.__name__ == class_name)
        entry = next(one for one in scene.CALLABLE["callables"] if one["name"] == name)
        entry["callable"](given[0] if of_simpler else _arguments(given))
    except Exception as error:
        raise HostCallableFailed(why(error, Path(file))) from None


def _arguments(given: Sequence[Any]) -> MappedArgs:
    args = MappedArgs()
    for value in given:
        if hasattr(value, "untyped_storage"):
            args.add_tensor(tensor_of(value))
        else:
            args.add_scalar(value)
    return args
