"""A comparator in a Python file of the user's: its function ``compare(name, actual, expected, ...)`` judges outputs."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.artifact.beside import modules_beside
from pypto_build.artifact.errors import ArtifactError, ErrorKind
from pypto_build.artifact.files import from_here, read_text
from pypto_build.replay.comparators.base import Comparator, Result
from pypto_build.replay.values import Array

_FUNCTION = "compare"
_KIND: ErrorKind = "golden_error"


def load_comparator(path: Path, output: str) -> Comparator:
    """Execute the file at ``path``, and return the comparator of ``output``.

    The function receives those keyword arguments of a comparator that it declares. Raises ArtifactError (golden) for a
    file that cannot be executed or lacks the function. The comparator raises it too if the function fails.
    """
    function = _function(path)
    parameters = inspect.signature(function).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())

    def judge(actual: Array, expected: Array, **others: Any) -> Result:
        chosen = {key: value for key, value in others.items() if takes_all or key in parameters}
        with _code_of_users(path):
            result = function(output, actual, expected, **chosen)
        ok, message = result if isinstance(result, tuple) and len(result) == 2 else (result, "")
        if not (isinstance(ok, (bool, np.bool_)) and isinstance(message, str)):
            text = f"{_FUNCTION} returned {result!r:.60} for '{output}'"
            raise ArtifactError(from_here(path), text, "return True or False, or that and a message", kind=_KIND)
        return bool(ok), message

    judge.__name__ = from_here(path)
    comparator: Comparator = judge
    return comparator


@functools.cache
def _function(path: Path) -> Callable[..., Any]:
    """Return the function of the file, which is executed once."""
    namespace: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    with _code_of_users(path):
        exec(compile(read_text(path), str(path), "exec"), namespace)
    function = namespace.get(_FUNCTION)
    if callable(function):
        return function  # type: ignore[no-any-return]
    hint = f"write def {_FUNCTION}(name, actual, expected, rtol, atol): return ok, message"
    raise ArtifactError(from_here(path), f"defines no function '{_FUNCTION}'", hint, kind=_KIND)


@contextmanager
def _code_of_users(path: Path) -> Iterator[None]:
    """In the block, find modules beside the file, and convert every exception to an error of the file, at its last line
    there."""
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with modules_beside(path):
            yield
    except SyntaxError as error:
        raise ArtifactError(f"{from_here(path)}:{error.lineno}", str(error.msg), kind=_KIND) from None
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        position = f"{from_here(path)}:{lines[-1]}" if lines else from_here(path)
        if isinstance(error, OSError) and not lines:
            raise ArtifactError(position, f"cannot be read: {error.strerror}", kind=_KIND) from None
        raise ArtifactError(position, f"{type(error).__name__}: {error}", kind=_KIND) from None
    finally:
        sys.dont_write_bytecode = writes
