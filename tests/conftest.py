"""What holds for every test process."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

# `pytest -m quick`: a signal over all rooms within a minute. Files as a whole, or single tests of those that take long.
QUICK = (
    "artifact/cpp/test_syntax.py", "artifact/test_derive.py", "artifact/test_manifest.py", "artifact/test_meta.py",
    "artifact/test_pt.py", "artifact/test_vintage.py",
    "compiler/test_api.py", "compiler/test_emit.py", "compiler/test_errors.py", "compiler/test_passes.py",
    "diagnose/test_console.py", "diagnose/test_lint.py", "diagnose/test_deps.py",
    "interop/test_scene_test.py::test_a_wrong_output_fails", "interop/test_search.py",
    "proof/test_digests.py", "proof/test_locks.py", "proof/test_store.py",
    "pto/test_assemble.py", "pto/test_check_operands.py", "pto/test_checks.py", "pto/test_diff.py",
    "pto/test_parse_errors.py", "pto/test_splice.py", "pto/test_table.py", "pto/test_wrapper.py",
    "replay/test_arena.py", "replay/test_binding.py", "replay/test_compare.py", "replay/test_scalars.py",
    "replay/test_tolerances.py", "replay/test_values.py", "replay/test_verdict.py",
    "rules/test_docs.py", "rules/test_incremental.py::test_null_build_runs_nothing",
    "runtime/test_dependencies.py", "runtime/test_task_args.py", "runtime/instructions/test_single.py",
    "toolchain/test_elf.py", "toolchain/test_pins.py",
    "test_imports.py",
)  # fmt: skip

# Workers share the machine's cores, and a child forked from a process with OpenMP threads can hang in them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Every command under test would compile our modules anew: half of the time of most tests that start one.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Commands under test leave no process behind but where that is what is tested.
os.environ["PYPTO_BUILD_SERVER"] = "0"

_TESTS = Path(__file__).resolve().parent

# Where tests keep what they compile (tests/replay/builder.py); workers inherit the one of the process that starts them.
_OWN = "PYPTO_BUILD_TEST_LIBRARIES" not in os.environ
if _OWN:
    os.environ["PYPTO_BUILD_TEST_LIBRARIES"] = tempfile.mkdtemp(prefix="pypto-build-tests-")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m quick` the other files are not even imported, which would take longer than the quick ones run."""
    if config.option.markexpr != "quick" or collection_path.suffix != ".py":
        return None
    return True if not any(_is_of(collection_path, entry) for entry in QUICK) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        named = getattr(item, "originalname", item.name)
        if any(_is_of(item.path, entry) and entry.partition("::")[2] in ("", named) for entry in QUICK):
            item.add_marker("quick")


def _is_of(path: Path, entry: str) -> bool:
    return path.is_relative_to(_TESTS) and path.relative_to(_TESTS).as_posix() == entry.partition("::")[0]


@pytest.fixture(scope="session")
def runtime() -> Path:
    """The embedded runtime, built where it was not: the rooms whose tests count what a build does ask for it first."""
    from tests.replay.builder import embedded_module

    return embedded_module()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    if _OWN:
        shutil.rmtree(os.environ["PYPTO_BUILD_TEST_LIBRARIES"], ignore_errors=True)
