"""Wrong orchestrations of which only the golden tells, found without the program: one edit of the text gives it."""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_DAG, _DAG_FILE = "_jit_vector_dag", "orchestration/vector_dag.cpp"
_ACC, _ACC_FILE = "_jit_accumulate", "orchestration/accumulate.cpp"
_ROWS, _ROWS_FILE = "_jit_row_blocks", "orchestration/row_blocks.cpp"
_LAST = "rt_submit_aiv_task(0, params_t1);"
_SCALARS = ("params_t1.add_scalar(to_u64(alpha));", "params_t1.add_scalar((uint64_t)1);")


def _bug(name: str, artifact: str, file: str, old: str, new: str, at: str, says: str) -> Bug:
    return Bug(name, artifact, ((file, old, new),), "diverge/trial", file, at, says, True, tool="diverge")


# fmt: off
BUGS = (
    _bug("input of another task", _DAG, _DAG_FILE, "params_t4.add_input(c);", "params_t4.add_input(d);",
         "params_t4.add_input(d);", "with c in place of d every output matches it"),
    _bug("two scalars exchanged", _DAG, _DAG_FILE, "\n        ".join(_SCALARS), "\n        ".join(reversed(_SCALARS)),
         "params_t1.add_scalar((uint64_t)1);", "with (uint64_t)1 and to_u64(alpha) exchanged every output matches it"),
    _bug("scalar of another task", _DAG, _DAG_FILE, "params_t2.add_scalar(steps);", "params_t2.add_scalar((uint64_t)1);",
         "params_t1.add_scalar((uint64_t)1);", "with steps in place of (uint64_t)1 every output matches it"),
    _bug("input of the program for a tensor of its own", _DAG, _DAG_FILE, "params_t2.add_input(c);",
         "params_t2.add_input(ext_a);", "params_t2.add_input(ext_a);", "with c in place of ext_a every output matches it"),
    _bug("another input of the program", _ACC, _ACC_FILE, "params_t0.add_input(ext_x);", "params_t0.add_input(ext_y);",
         "params_t0.add_input(ext_y);", "with ext_x in place of ext_y every output matches it"),
    _bug("task submitted twice", _ACC, _ACC_FILE, _LAST, f"{_LAST}\n        {_LAST}", _LAST,
         "with this submission left out every output matches it"),
    _bug("two inputs exchanged", "_jit_matmul", "orchestration/matmul.cpp",
         "params_t0.add_input(ext_a);\n        params_t0.add_input(ext_b);",
         "params_t0.add_input(ext_b);\n        params_t0.add_input(ext_a);",
         "params_t0.add_input(ext_b);", "with ext_b and ext_a exchanged every output matches it"),
    _bug("another's kernel", _DAG, _DAG_FILE, "rt_submit_aiv_task(2, params_t3);", "rt_submit_aiv_task(0, params_t3);",
         "rt_submit_aiv_task(0, params_t3);", "with kernel kernel_mul in place of kernel_add every output matches it"),
    _bug("loop a step short", _ROWS, _ROWS_FILE, "i < 200", "i < 192", "i < 192",
         "with a loop that ends a step later every output matches it"),
)
# fmt: on
