"""`sweep` finds the inputs that fail, keeps the smallest, and proposes a tolerance that what it saw explains."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto_build.diagnose.sweep import work
from pypto_build.diagnose.sweep.__main__ import main
from pypto_build.diagnose.sweep.run import (
    GROUPS,
    Result,
    Symbol,
    cases,
    compare,
    kinds_of,
    make,
    proposal,
    run_all,
    seeds_of,
    sizes_of,
)
from pypto_build.replay.values import STORAGE, decode
from tests.diagnose.checked import EXAMPLES, copy_example
from tests.replay.builder import build_artifact, embedded_module, replay

_WITHOUT_MAX = [("kernels/aiv/softmax_rows.cpp", "TROWEXPANDSUB(v16, v7, v15);", "TADDS(v16, v7, 0.0f);")]


def sweep(artifact: Path, directory: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Build and sweep into `directory`; the exit status and what JSON= gets."""
    out = directory / "out" / artifact.name
    build_artifact(artifact, out)
    fixed = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--output", str(directory)]
    status = main([*fixed, "--jobs", "2", "--json", str(directory / "sweep.json"), *words])
    document = directory / "sweep.json"
    return status, json.loads(document.read_bytes()) if document.is_file() else {}


def test_the_same_values_from_the_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = sweep(EXAMPLES / "_jit_vector_dag", tmp_path, "--seeds", "1-12")
    assert (status, document["oracle"], len(document["cases"])) == (0, "the .pto modules", 12)
    assert {case["status"] for case in document["cases"]} == {"pass"} and document["smallest"] is None
    assert {case["kind"] for case in document["cases"]} >= {"zeros", "denormals", "normal"}
    assert "RTOL=0 ATOL=0: the same bits as the reference in every case" in capsys.readouterr().out
    assert not (tmp_path / "_jit_vector_dag_sweep").exists()


def test_what_fails_only_for_large_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A softmax that does not take the maximum away is right until exp() has no room."""
    artifact = copy_example("_jit_softmax", tmp_path, _WITHOUT_MAX)
    status, document = sweep(artifact, tmp_path, "--seeds", "1-6,30,31", "--values", "normal,large,zeros")
    failing = {case["kind"] for case in document["cases"] if case["status"] == "mismatch"}
    assert (status, failing, document["smallest"]["kind"]) == (1, {"large"}, "large")
    root = tmp_path / "_jit_softmax_sweep"
    assert f"seed {document['smallest']['seed']} (large): scons replay JIT=" in capsys.readouterr().out
    build_artifact(root, tmp_path / "again")
    assert replay(root, tmp_path / "again").verdict.status == "mismatch"


def test_ctrl_c_keeps_the_cases_that_ran(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: Any) -> Iterator[Result]:
        for number, result in enumerate(run_all(*words)):
            if number == 3:
                raise KeyboardInterrupt
            yield result

    monkeypatch.setattr(work, "run_all", interrupted)
    status, document = sweep(EXAMPLES / "_jit_vector_dag", tmp_path, "--seeds", "1-12")
    assert (status, len(document["cases"])) == (130, 3)
    output = capsys.readouterr().out
    assert "[sweep] interrupted after 3 of 12 cases\n[sweep] 3 cases against the .pto modules, 0 fail\n" in output


def test_sizes_of_dynamic_dimensions(tmp_path: Path) -> None:
    """The blocks of rows of this artifact are written for every number of them but for what its loop counts to."""
    artifact = copy_example("_jit_row_blocks", tmp_path)
    meta = json.loads((artifact / "compiled_meta.json").read_bytes())
    for param in meta["params"]:
        param["shape"] = [-1 if extent == 200 else extent for extent in param["shape"]]
    (artifact / "compiled_meta.json").write_text(json.dumps(meta))
    status, document = sweep(artifact, tmp_path, "--seeds", "1-8", "--shapes", "200,256", "--values", "normal,ones")
    assert document["sizes"] == ["x[0]"]
    ended = {(case["sizes"][0], case["status"]) for case in document["cases"]}
    assert (200, "pass") in ended and status in (0, 1)
    assert {size for size, _ in ended} == {200, 256}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--seeds", "9-1"), "SEEDS=9-1: is not a range of seeds"),
        (
            ("--values", "odd"),
            "VALUES=odd: 'odd' is not a kind of values; use one of random, edge, structured, special; or ",
        ),
        (("--shapes", "3"), "SHAPES=3: the artifact has no dynamic dimension; leave out SHAPES="),
    ],
)
def test_wrong_use_is_one_line(
    words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(EXAMPLES / "_jit_softmax", tmp_path, *words)[0] == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"sweep: {says}")


def test_every_kind_is_what_it_is_called() -> None:
    shape = (4, 8)
    for kind in [kind for kinds in GROUPS.values() for kind in kinds]:
        for dtype in ("float32", "float16", "bfloat16"):
            made = make(kind, 3, "x", dtype, shape)
            assert made == make(kind, 3, "x", dtype, shape)
            values = decode(np.frombuffer(made, STORAGE[dtype]), dtype).astype(np.float64).reshape(shape)
            assert kind in GROUPS["special"] or np.isfinite(values).all()
            match kind:
                case "zeros":
                    assert not values.any() and not np.signbit(values).any()
                case "negative-zeros":
                    assert not values.any() and np.signbit(values).all()
                case "one-hot":
                    assert (values.sum(-1) == 1).all() and (values.max(-1) == 1).all()
                case "constant-rows":
                    assert (values == values[:, :1]).all()
                case "alternating":
                    assert (values[:, :-1] == -values[:, 1:]).all()
                case "denormals":
                    smallest = 6.103515625e-05 if dtype == "float16" else 1.1754943508222875e-38
                    assert (np.abs(values) < smallest).all() and values.any()
                case "large":
                    assert np.isfinite(values.astype(np.float32)).all() and np.abs(values).min() > 1
    for scalar in ("zeros", "one-hot", "ramp", "constant-rows", "alternating", "nans"):
        assert len(make(scalar, 1, "x", "float32", ())) == 4
        assert make(scalar, 1, "x", "float32", (0, 4)) == b""


def test_seeds_kinds_and_sizes() -> None:
    assert seeds_of("1-3,2,9") == [1, 2, 3, 9]
    assert kinds_of("zeros,normal") == ["normal", "zeros"]
    usual = kinds_of("")
    assert usual.count("normal") + usual.count("uniform") + usual.count("wide") == len(usual) // 2
    assert "nans" not in usual and "nans" in kinds_of("random,special")
    symbols = (Symbol(64, (("x", 0), ("y", 0))), Symbol(32, (("z", 1),)))
    assert sizes_of("", symbols) == [(64, 32)]
    assert sizes_of("1x16,7x32", symbols) == [(1, 16), (7, 32)]
    around = sizes_of("auto", symbols)
    assert around[0] == (64, 32) and {(1, 32), (64, 33), (63, 32), (1, 1)} <= set(around)
    every = list(cases(range(40), ["zeros", "normal"], [(1,), (2,)]))
    assert {(case.kind, case.sizes) for case in every} == {(k, s) for k in ("zeros", "normal") for s in ((1,), (2,))}


def error(actual: list[float], expected: list[float]) -> Any:
    a, e = (np.asarray(side, np.float32).tobytes() for side in (actual, expected))
    return compare("y", "float32", a, e, 1e-5, 1e-5)


def test_a_tolerance_has_its_reason() -> None:
    ones = [1.0] * 8
    assert proposal([error(ones, ones)])[:2] == (0.0, 0.0)
    near = [error([1 + 3e-5, *ones[1:]], ones), error(ones, ones)]
    rtol, atol, reason = proposal(near)
    assert (rtol, atol) == (5e-5, 5e-5) and "the largest error in 2 cases is 3e-05" in reason
    assert proposal([error([2.0, *ones[1:]], ones)])[0] is None
    mostly_zero = [0.0] * 5 + ones[:3]
    rtol, _, reason = proposal([error([*mostly_zero[:-1], 1 + 3e-5], mostly_zero), error([0.0] * 8, [0.0] * 8)])
    assert rtol == 5e-5 and "3e-05, 252 units in the last place of float32 at the median size 1;" in reason
    assert "the largest error in 1 case is 1e-31; twice" in proposal([error([1e-31] * 8, [0.0] * 8)])[2]
    lost = error([float("nan"), *ones[1:]], ones)
    assert lost.not_finite and lost.mismatched == 1
    assert proposal([lost])[0] is None
    both = error([float("nan"), *ones[1:]], [float("nan"), *ones[1:]])
    assert both.mismatched == 0 and not both.not_finite
