"""Comparators: rules for outputs that element-wise tolerances do not fit, by the names pypto-lib's harness gives them.

On a command line one is written as a call with literal arguments, `out=ratio_allclose(max_error_ratio=0.01)`; in Python
the factories below are called directly. A file of Python, `out=rules/close.py`, has a rule of the user's own.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pypto_build.artifact.beside import modules_beside
from pypto_build.artifact.errors import ArtifactError, ErrorKind
from pypto_build.artifact.files import from_here, read_text
from pypto_build.facts.run_options import is_tolerance
from pypto_build.replay.compare import coordinates
from pypto_build.replay.values import Array

Arrays = Mapping[str, Array]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Result = tuple[bool, str]


class Comparator(Protocol):
    """The protocol: takes decoded arrays, returns `(ok, detail)`. `detail` explains a failure, or comments on a pass.

    `inputs` are the pure inputs and the scalars (0-dim), with their values from before the run.
    """

    __name__: str

    def __call__(
        self,
        actual: Array,
        expected: Array,
        *,
        actual_outputs: Arrays,
        expected_outputs: Arrays,
        inputs: Arrays,
        rtol: float,
        atol: float,
    ) -> Result: ...


def named(name: str, parameters: Mapping[str, Any], compare: Callable[..., Result]) -> Comparator:
    """Return `compare` under the name `name(parameter=value, …)`; `max_show` decides nothing."""
    words = [f"{key}={value!r}" for key, value in parameters.items() if key != "max_show"]
    compare.__name__ = f"{name}({', '.join(words)})"
    comparator: Comparator = compare
    return comparator


def as_float32(array: Array) -> Floats:
    """Return values rounded to float32, in which the ratio rules are stated, widened so that differences are exact."""
    return array.astype(np.float32).astype(np.float64)


def valid_prefix(
    actual: Array, expected: Array, valid_rows: int | None, valid_axis: int, zero_tail: bool
) -> tuple[Array, Array, str]:
    """Return the compared part of both sides, and an error about the rest ("" if there is none).

    `valid_rows` leading entries along `valid_axis` are compared; with `zero_tail` all others of `actual` must be zero.
    """
    if valid_rows is None:
        return actual, expected, ""
    if not -actual.ndim <= valid_axis < actual.ndim:
        return actual, expected, f"valid_axis={valid_axis} is not an axis of shape {actual.shape}"
    size = actual.shape[valid_axis]
    if not 0 <= valid_rows <= size:
        return actual, expected, f"valid_rows={valid_rows} is outside 0..{size}, the size of axis {valid_axis}"
    ours, theirs = (np.moveaxis(side, valid_axis, 0) for side in (actual, expected))
    stray = int(np.count_nonzero(ours[valid_rows:])) if zero_tail else 0
    wrong = f"{stray} non-zero elements after the first {valid_rows} of axis {valid_axis}" if stray else ""
    return ours[:valid_rows], theirs[:valid_rows], wrong


def listing(bad: Bools, max_show: int, line: Callable[[int], str]) -> str:
    """Return `line(flat index)` for the first `max_show` bad elements, one below the other."""
    return "".join(f"\n      {line(int(at))}" for at in np.flatnonzero(bad)[:max_show])


#: Below this size a value counts as noise around zero in the relative rule.
_SMALL = 2.0**-14


def out_of_tolerance(actual: Floats, expected: Floats, rtol: float, atol: float) -> Bools:
    """Return the mask of elements beyond `atol + rtol * abs(expected)`; NaN or infinity on either side counts as
    beyond.
    """
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(actual - expected) <= atol + rtol * np.abs(expected))
    bad: Bools = off | ~np.isfinite(actual) | ~np.isfinite(expected)
    return bad


def ratio_allclose(
    atol: float | None = None,
    rtol: float | None = None,
    max_error_ratio: float = 0.005,
    max_show: int = 10,
    valid_rows: int | None = None,
    valid_axis: int = 0,
    zero_tail: bool = False,
) -> Comparator:
    """Return a comparator that accepts at most `round(max_error_ratio * numel)` elements out of tolerance. `atol`
    and `rtol` default to the replay's.
    """
    parameters = dict(locals())
    fixed_atol, fixed_rtol = atol, rtol

    def compare(actual: Array, expected: Array, *, rtol: float, atol: float, **_: Any) -> Result:
        used_atol = atol if fixed_atol is None else fixed_atol
        used_rtol = rtol if fixed_rtol is None else fixed_rtol
        kept_actual, kept_expected, wrong = valid_prefix(actual, expected, valid_rows, valid_axis, zero_tail)
        if wrong:
            return False, wrong
        a, e = as_float32(kept_actual), as_float32(kept_expected)
        bad = out_of_tolerance(a, e, used_rtol, used_atol)
        count, allowed = int(np.count_nonzero(bad)), round(max_error_ratio * bad.size)
        if count <= allowed:
            return True, ""
        detail = f"error_count={count}/{bad.size} ratio={count / bad.size:.6g} allowed={allowed}"
        detail += f" atol={used_atol:g} rtol={used_rtol:g}"
        return False, detail + _largest(a, e, used_rtol, used_atol) + listing(
            bad, max_show, _line(a, e, used_rtol, used_atol)
        )

    return named("ratio_allclose", parameters, compare)


def _largest(a: Floats, e: Floats, rtol: float, atol: float) -> str:
    with np.errstate(invalid="ignore"):
        delta = np.abs(a - e)
    if not np.isfinite(delta).any():
        return ""
    at = int(np.argmax(np.where(np.isfinite(delta), delta, -1.0)))
    tolerance = atol + rtol * abs(float(e.flat[at]))
    return f"\n      max abs diff {delta.flat[at]:.6g} at {coordinates(at, a.shape)}, tolerance {tolerance:.6g}"


def _line(a: Floats, e: Floats, rtol: float, atol: float) -> Callable[[int], str]:
    def line(at: int) -> str:
        x, y = float(a.flat[at]), float(e.flat[at])
        return (
            f"[{at}] actual={x:.8g}, expected={y:.8g}, abs_diff={abs(x - y):.6g}, tolerance={atol + rtol * abs(y):.6g}"
        )

    return line


def ratio_reldiff(
    diff_thd: float = 0.01,
    pct_thd: float = 0.05,
    max_diff_hd: float = math.inf,
    max_show: int = 10,
    valid_rows: int | None = None,
    valid_axis: int = 0,
    zero_tail: bool = False,
) -> Comparator:
    """Return a comparator that accepts at most `round(pct_thd * numel)` relative differences beyond `diff_thd`, and
    none beyond `max_diff_hd`.

    The difference is symmetric: `abs(a - e) / (max(abs(a), abs(e), 2**-14 / diff_thd) + 1e-9)`; the absolute difference
    counts if it is below `diff_thd`.
    """
    parameters = dict(locals())

    def compare(actual: Array, expected: Array, **_: Any) -> Result:
        kept_actual, kept_expected, wrong = valid_prefix(actual, expected, valid_rows, valid_axis, zero_tail)
        if wrong:
            return False, wrong
        a, e = as_float32(kept_actual), as_float32(kept_expected)
        delta, relative = relative_difference(a, e, diff_thd)
        bad = ~(relative <= diff_thd)
        count, allowed = int(np.count_nonzero(bad)), round(pct_thd * bad.size)
        worst = float(np.max(np.where(np.isnan(relative[bad]), np.inf, relative[bad]), initial=0.0))
        reasons = []
        if count > allowed:
            reasons.append(f"error_count={count}/{bad.size} exceeds allowed={allowed}")
        if count and worst >= max_diff_hd:
            reasons.append(f"worst rdiff={worst:.6g} is not below max_diff_hd={max_diff_hd:g}")
        if not reasons:
            return True, ""

        def line(at: int) -> str:
            return (
                f"[{at}] actual={a.flat[at]:.8g}, expected={e.flat[at]:.8g}, "
                f"abs_diff={delta.flat[at]:.6g}, rdiff={relative.flat[at]:.6g}"
            )

        return False, " AND ".join(reasons) + listing(bad, max_show, line)

    return named("ratio_reldiff", parameters, compare)


def relative_difference(a: Floats, e: Floats, diff_thd: float) -> tuple[Floats, Floats]:
    """Return the absolute and the symmetric relative difference of `ratio_reldiff`."""
    with np.errstate(invalid="ignore"):
        delta = np.abs(a - e)
        size = np.maximum(np.maximum(np.abs(a), np.abs(e)), _SMALL / diff_thd) + 1e-9
        return delta, np.where(delta < diff_thd, delta, delta / size)


def error_distribution(
    diff_thds: tuple[float, ...] = (1e-3, 3e-3, 5e-3, 1e-2, 3e-2, 5e-2),
    quantiles: tuple[float, ...] = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0),
    always_pass: bool = True,
) -> Comparator:
    """Return a comparator that reports relative L2 error, cosine, the share of elements beyond each threshold, and
    percentiles.

    It fails only with `always_pass=False` and a NaN or infinity in the actual output.
    """
    parameters = locals() | {"diff_thds": tuple(diff_thds), "quantiles": tuple(quantiles)}

    def compare(actual: Array, expected: Array, **_: Any) -> Result:
        a, e = as_float32(actual).reshape(-1), as_float32(expected).reshape(-1)
        finite = np.isfinite(a) & np.isfinite(e)
        stray = int(np.count_nonzero(~np.isfinite(a)))
        lines = [*_norms(a[finite], e[finite]), *_shares(a[finite], e[finite], diff_thds)]
        lines += _percentiles(a[finite], e[finite], quantiles)
        if stray:
            lines.insert(0, f"{stray} NaN or inf in the actual output")
        return always_pass or stray == 0, "\n      ".join(lines)

    return named("error_distribution", parameters, compare)


def _norms(a: Floats, e: Floats) -> list[str]:
    size = float(np.linalg.norm(e))
    product = size * float(np.linalg.norm(a))
    relative = float(np.linalg.norm(a - e)) / size if size else 0.0
    cosine = float(a @ e) / product if product else 0.0
    return [f"rel-L2={relative:.6g} cosine={cosine:.9g}"]


def _shares(a: Floats, e: Floats, thresholds: tuple[float, ...]) -> list[str]:
    shares = []
    for threshold in thresholds:
        _, relative = relative_difference(a, e, threshold)
        shares.append(f">{threshold:g}: {float(np.mean(relative > threshold)) if a.size else 0.0:.4%}")
    return ["share of rdiff " + "  ".join(shares)]


def _percentiles(a: Floats, e: Floats, quantiles: tuple[float, ...]) -> list[str]:
    if not a.size:
        return []
    delta, relative = relative_difference(a, e, 0.01)
    rows = {"rdiff": relative, "abs diff": delta, "abs golden": np.abs(e)}
    return [
        f"{name}: "
        + "  ".join(
            f"p{100 * q:g}={value:.6g}" for q, value in zip(quantiles, np.quantile(row, quantiles), strict=True)
        )
        for name, row in rows.items()
    ]


Rows = npt.NDArray[np.int64]


def mapped_pool_ratio_allclose(
    mapping_name: str,
    *,
    mapping_shape: tuple[int, ...],
    block_size: int,
    leading_rank_axis: bool = False,
    pool_name: str = "pool",
    atol: float | None = None,
    rtol: float | None = None,
    max_error_ratio: float = 0.005,
) -> Comparator:
    """Return a comparator for a pool `[blocks, block, …]`, or `[ranks, blocks, block, …]` with `leading_rank_axis`.

    The integer input `mapping_name` names the rows (`block * block_size + slot`) that the program writes, -1 for none;
    with ranks its first axis counts them. Mapped rows get the ratio rule; all other rows must equal the golden exactly.
    """
    parameters = locals() | {"mapping_shape": tuple(mapping_shape)}
    fixed_atol, fixed_rtol = atol, rtol

    def compare(actual: Array, expected: Array, *, inputs: Arrays, rtol: float, atol: float, **_: Any) -> Result:
        used_atol = atol if fixed_atol is None else fixed_atol
        used_rtol = rtol if fixed_rtol is None else fixed_rtol
        axes = 3 if leading_rank_axis else 2
        if actual.ndim < axes or actual.shape[axes - 1] != block_size:
            form = "[ranks, blocks, block, ...]" if leading_rank_axis else "[blocks, block, ...]"
            return False, f"{pool_name}: shape {actual.shape} is not {form} with block_size={block_size}"
        ranks = actual.shape[0] if leading_rank_axis else 1
        rows = actual.shape[axes - 2] * block_size
        mapping = inputs.get(mapping_name)
        wrong = _mapping_fault(mapping, mapping_name, tuple(mapping_shape), rows, ranks if leading_rank_axis else None)
        if wrong or mapping is None:
            return False, wrong
        ours, theirs = (side.reshape(ranks, rows, -1) for side in (actual, expected))
        targets = mapping.reshape(ranks, -1).astype(np.int64)
        for rank in range(ranks):
            wrong = _rank_fault(
                ours[rank],
                theirs[rank],
                targets[rank],
                used_rtol,
                used_atol,
                max_error_ratio,
                f"{pool_name} rank {rank}",
            )
            if wrong:
                return False, wrong
        return True, ""

    return named("mapped_pool_ratio_allclose", parameters, compare)


def _mapping_fault(mapping: Array | None, name: str, shape: tuple[int, ...], rows: int, ranks: int | None) -> str:
    """Return the fault of the mapping input; "" if it can be used."""
    if mapping is None:
        return f"mapping '{name}' is not an input of this artifact"
    if mapping.dtype.kind not in "iu":
        return f"mapping '{name}' has dtype {mapping.dtype}, expected an integer"
    if mapping.shape != shape:
        return f"mapping '{name}' has shape {mapping.shape}, expected {shape}"
    if ranks is not None and (not shape or shape[0] != ranks):
        return f"mapping '{name}' has shape {shape}, expected {ranks} ranks first"
    low, high = int(mapping.min(initial=0)), int(mapping.max(initial=-1))
    if low < -1 or high >= rows:
        return f"mapping '{name}' holds {low if low < -1 else high}, outside -1..{rows - 1}"
    for rank, entries in enumerate(mapping.reshape(ranks or 1, -1)):
        used, counts = np.unique(entries[entries >= 0], return_counts=True)
        if np.any(counts > 1):
            return f"mapping '{name}' names row {int(used[np.argmax(counts > 1)])} twice in rank {rank}"
    return ""


def _rank_fault(
    actual: Array, expected: Array, mapping: Rows, rtol: float, atol: float, max_error_ratio: float, label: str
) -> str:
    mapped = mapping[mapping >= 0]
    stray = np.ones(actual.shape[0], dtype=np.bool_)
    stray[mapped] = False
    changed = (actual != expected) & ~((actual != actual) & (expected != expected)) & stray[:, None]
    if changed.any():
        row = int(np.argmax(changed.any(axis=1)))
        count = int(np.count_nonzero(changed[row]))
        return f"{label} row {row}: {count} values changed in a row the mapping does not name"
    bad = out_of_tolerance(as_float32(actual[mapped]), as_float32(expected[mapped]), rtol, atol)
    count, allowed = int(np.count_nonzero(bad)), round(max_error_ratio * bad.size)
    if count <= allowed:
        return ""
    row = int(mapped[np.argmax(bad.any(axis=1))])
    return f"{label}: error_count={count}/{bad.size} exceeds allowed={allowed} in mapped rows, first in row {row}"


def topk_pair_compare(vals_name: str, *, dim: int = -1, descending: bool = True, max_show: int = 10) -> Comparator:
    """Compare indices with the golden's; other indices are allowed where the values of output `vals_name` are still in
    order.

    A differing index is allowed if the paired value lies between its neighbours along `dim`. The values themselves are
    compared as an output of their own.
    """
    parameters = dict(locals())

    def compare(actual: Array, expected: Array, *, actual_outputs: Arrays, **_: Any) -> Result:
        values = actual_outputs.get(vals_name)
        if values is None:
            return False, f"'{vals_name}' is not an output of this artifact"
        if values.shape != actual.shape:
            return False, f"'{vals_name}' has shape {values.shape}, the indices {actual.shape}"
        scores = np.moveaxis(values.astype(np.float64), dim, -1)
        ours, theirs = np.moveaxis(actual, dim, -1), np.moveaxis(expected, dim, -1)
        falling = scores if descending else -scores
        in_order = np.ones(scores.shape, dtype=np.bool_)
        if scores.shape[-1] > 1:
            step = falling[..., :-1] >= falling[..., 1:]
            in_order[..., :-1] &= step
            in_order[..., 1:] &= step
        bad = (ours != theirs) & ~in_order
        if not bad.any():
            return True, ""

        def line(at: int) -> str:
            index = np.unravel_index(at, bad.shape)
            column = int(index[-1])
            window = scores[index[:-1]][max(0, column - 1) : column + 2]
            return (
                f"{coordinates(at, bad.shape)} actual_idx={int(ours[index])}, expected_idx={int(theirs[index])}, "
                f"score={float(scores[index]):.8g}, neighbours={[float(f'{value:.8g}') for value in window]}"
            )

        return False, f"{int(np.count_nonzero(bad))} indices differ where the values are out of order" + listing(
            bad, max_show, line
        )

    return named("topk_pair_compare", parameters, compare)


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
            raise ArtifactError(
                from_here(path), text, "return True or False, or a pair of that and a message", kind=_KIND
            )
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
    """While the block runs, import modules beside the file, and convert every exception to an error at the last line
    of the file that it passed.
    """
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


COMPARATORS: dict[str, Callable[..., Comparator]] = {
    "ratio_allclose": ratio_allclose,
    "ratio_reldiff": ratio_reldiff,
    "mapped_pool_ratio_allclose": mapped_pool_ratio_allclose,
    "topk_pair_compare": topk_pair_compare,
    "error_distribution": error_distribution,
}


def comparator_of(spec: str, output: str) -> Comparator:
    """Return the comparator of an output: a call of a built-in comparator, or a file of the user's (`*.py`).

    Raises `ArtifactError`.
    """
    if not spec.endswith(".py"):
        return parse_comparator(spec)
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
        raise ArtifactError(
            option, "its arguments must be literal numbers or strings", f"{call.func.id}{_signature(factory)}"
        ) from None
    for name, value in (*(("", value) for value in positional), *keywords.items()):
        if (isinstance(value, float) or name in ("rtol", "atol")) and value is not None and not is_tolerance(value):
            raise ArtifactError(
                option, f"'{value}' is not a finite number of at least 0", "write such a number, for example 1e-3"
            )
    try:
        return factory(*positional, **keywords)
    except TypeError as error:
        raise ArtifactError(option, str(error), f"{call.func.id}{_signature(factory)}") from None


def _signature(factory: Callable[..., Comparator]) -> str:
    """Return the parameters and defaults of a factory, without its annotations."""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(factory).parameters.values()]
    return str(inspect.Signature(parameters))
