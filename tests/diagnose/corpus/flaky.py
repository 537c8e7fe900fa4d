"""Results that depend on the order of tasks, which `flaky` finds by running orders."""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_DAG, _ORCH = "_jit_vector_dag", "orchestration/vector_dag.cpp"


def _flaky(name: str, at: str, says: str, *edits: tuple[str, str]) -> Bug:
    return Bug(name, _DAG, tuple((_ORCH, *edit) for edit in edits), "flaky/order", _ORCH, at, says, tool="flaky")


BUGS = (
    _flaky(
        "two tasks that write one tensor",
        "params_t2.add_output(d);",
        "output 'f' varies in 16384 of 16384 elements, first at (0, 0), (0, 1), (0, 2), (0, 3); the output "
        "changes if task 2 (1:3) kernel_shift runs before task 1 (1:2) kernel_shift, and nothing orders these two",
        ("params_t2.add_output(e);", "params_t2.add_output(d);"),
        ("add_input(e);", "add_input(d);"),
    ),
    _flaky(
        "reader that waits for nobody",
        "params_t3.add_no_dep(d);",
        "the output changes if task 3 (1:4) kernel_mul runs before task 1 (1:2) kernel_shift, and nothing orders these two",
        ("params_t3.add_input(d);", "params_t3.add_no_dep(d);"),
    ),
    _flaky(
        "tensor overwritten under its reader",
        "params_t2.add_output(c);",
        "output 'f' varies in",
        ("params_t2.add_output(e);", "params_t2.add_output(c);"),
        ("add_input(e);", "add_input(c);"),
    ),
)
