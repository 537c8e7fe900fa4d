"""Comparators: rules for outputs that element-wise tolerances do not fit, by the names pypto-lib's harness gives them.

On a command line one is written as a call with literal arguments, `out=ratio_allclose(max_error_ratio=0.01)`; in Python
the factories below are called directly. A file of Python, `out=rules/close.py`, has a rule of the user's own.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

from pypto_build.artifact.errors import ArtifactError
from pypto_build.facts.run_options import is_tolerance
from pypto_build.replay.comparators.base import Comparator
from pypto_build.replay.comparators.distribution import error_distribution
from pypto_build.replay.comparators.pool import mapped_pool_ratio_allclose
from pypto_build.replay.comparators.ratio import ratio_allclose, ratio_reldiff
from pypto_build.replay.comparators.topk import topk_pair_compare

__all__ = [
    "COMPARATORS",
    "Comparator",
    "comparator_of",
    "error_distribution",
    "mapped_pool_ratio_allclose",
    "parse_comparator",
    "ratio_allclose",
    "ratio_reldiff",
    "topk_pair_compare",
]

COMPARATORS: dict[str, Callable[..., Comparator]] = {
    "ratio_allclose": ratio_allclose,
    "ratio_reldiff": ratio_reldiff,
    "mapped_pool_ratio_allclose": mapped_pool_ratio_allclose,
    "topk_pair_compare": topk_pair_compare,
    "error_distribution": error_distribution,
}


def comparator_of(spec: str, output: str) -> Comparator:
    """Return the comparator of an output: a call of one of ours, or the file of a user's own (`*.py`).

    Raises `ArtifactError`.
    """
    if not spec.endswith(".py"):
        return parse_comparator(spec)
    from pypto_build.replay.comparators.file import load_comparator

    return load_comparator(Path(spec), output)


def parse_comparator(spec: str) -> Comparator:
    """Return the comparator that `spec` calls: a name, or a name with literal arguments. Never evaluates code.

    Raises `ArtifactError` (usage) for an unknown name, arguments that are not literals, and arguments that do not fit.
    """
    option = f"--comparator {spec}"
    try:
        tree = ast.parse(spec.strip(), mode="eval").body
    except SyntaxError:
        raise ArtifactError(option, "is not a call such as ratio_allclose(max_error_ratio=0.01)") from None
    call = tree if isinstance(tree, ast.Call) else ast.Call(func=tree, args=[], keywords=[])
    if not isinstance(call.func, ast.Name) or call.func.id not in COMPARATORS:
        raise ArtifactError(option, "is not a comparator", f"use one of {', '.join(COMPARATORS)}")
    factory = COMPARATORS[call.func.id]
    try:
        positional = [ast.literal_eval(argument) for argument in call.args]
        keywords = {keyword.arg or "**": ast.literal_eval(keyword.value) for keyword in call.keywords}
    except ValueError:
        raise ArtifactError(option, "its arguments must be literals", f"{call.func.id}{_signature(factory)}") from None
    for name, value in (*(("", value) for value in positional), *keywords.items()):
        if (isinstance(value, float) or name in ("rtol", "atol")) and value is not None and not is_tolerance(value):
            raise ArtifactError(option, f"'{value}' is not a finite number of at least 0", "write one, such as 1e-3")
    try:
        return factory(*positional, **keywords)
    except TypeError as error:
        raise ArtifactError(option, str(error), f"{call.func.id}{_signature(factory)}") from None


def _signature(factory: Callable[..., Comparator]) -> str:
    """Return the parameters and defaults of a factory, without its annotations."""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(factory).parameters.values()]
    return str(inspect.Signature(parameters))
