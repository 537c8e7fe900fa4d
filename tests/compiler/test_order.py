"""Orders that a program gives itself: manual scopes, tasks to wait for, loops that end when a value says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.compiler import VINTAGES, CompileError, Options, build_program
from pypto_build.compiler.torch_program import program_text, typed_program
from tests.compiler.programs import files, load, passed

KERNEL = "@pl.jit.incore\ndef k(x: M, out: pl.InOut[M]):\n    pl.store(pl.load(x, [0, 0], [64, 64]), [0, 0], out)\n"
HEAD = "@pl.jit\ndef main(x: M, flags: pl.Tensor[[8], pl.INT32], out: pl.InOut[M]):\n"


def _program(body: str) -> str:
    return KERNEL + HEAD + "".join(f"    {line}\n" for line in body.split("\n"))


def _entry(tmp_path: Path, body: str) -> str:
    text = files(tmp_path, _program(body))["orchestration/main.cpp"]
    return text.partition("    PTO2_SCOPE() {\n")[2].partition("    }\n}\n")[0]


def test_a_task_waits_for_another(tmp_path: Path) -> None:
    assert _entry(tmp_path, "a = k(x, out)\nk(x, out, deps=[a])") == (
        "\n"
        "        // Task 0: k\n"
        "        CoreTaskArgs params_t0;\n"
        "        params_t0.add_input(ext_x);\n"
        "        params_t0.add_inout(ext_out);\n"
        "        TaskOutputTensors task_0_outs = rt_submit_aiv_task(0, params_t0);\n"
        "        PTO2TaskId a = task_0_outs.task_id();\n"
        "\n"
        "        // Task 1: k\n"
        "        CoreTaskArgs params_t1;\n"
        "        params_t1.add_input(ext_x);\n"
        "        params_t1.add_inout(ext_out);\n"
        "        PTO2TaskId params_t1_deps[1];\n"
        "        uint32_t params_t1_deps_count = 0;\n"
        "        params_t1_deps[params_t1_deps_count++] = a;\n"
        "        params_t1.set_dependencies(params_t1_deps, params_t1_deps_count);\n"
        "        rt_submit_aiv_task(0, params_t1);\n"
    )


def test_no_scope_inside_a_manual_one(tmp_path: Path) -> None:
    """A task that a loop carries may not have been submitted yet."""
    text = _entry(
        tmp_path,
        "with pl.manual_scope():\n    last = pl.no_task()\n    for i in pl.range(4):\n"
        "        last = k(x, out, deps=[last])",
    )
    assert text == (
        "        PTO2_SCOPE(PTO2ScopeMode::MANUAL) {\n"
        "            PTO2TaskId last = PTO2TaskId::invalid();\n"
        "            for (int64_t i = 0; i < 4; i += 1) {\n"
        "\n"
        "                // Task 0: k\n"
        "                CoreTaskArgs params_t0;\n"
        "                params_t0.add_input(ext_x);\n"
        "                params_t0.add_inout(ext_out);\n"
        "                PTO2TaskId params_t0_deps[1];\n"
        "                uint32_t params_t0_deps_count = 0;\n"
        "                if (last.is_valid()) params_t0_deps[params_t0_deps_count++] = last;\n"
        "                params_t0.set_dependencies(params_t0_deps, params_t0_deps_count);\n"
        "                TaskOutputTensors task_0_outs = rt_submit_aiv_task(0, params_t0);\n"
        "                PTO2TaskId last__ssa_v2 = task_0_outs.task_id();\n"
        "                last = last__ssa_v2;\n"
        "            }\n"
        "        }\n"
    )


def test_what_is_said_of_a_task(tmp_path: Path) -> None:
    body = (
        "a = k(x, out)\nb = pl.dummy_task([a])\nfor i in pl.range(2):\n"
        "    k[4](x, out, deps=[b], dumps=[out, x], allow_early_resolve=True, predicate=pl.read(flags, [i]) >= 3)"
    )
    text = _entry(tmp_path, body)
    assert text.partition("task_0_outs.task_id();\n")[2] == (
        "\n"
        "        // Task 1: waits, runs nothing\n"
        "        CoreTaskArgs params_t1;\n"
        "        PTO2TaskId params_t1_deps[1];\n"
        "        uint32_t params_t1_deps_count = 0;\n"
        "        params_t1_deps[params_t1_deps_count++] = a;\n"
        "        params_t1.set_dependencies(params_t1_deps, params_t1_deps_count);\n"
        "        TaskOutputTensors task_1_outs = rt_submit_dummy_task(params_t1);\n"
        "        PTO2TaskId b = task_1_outs.task_id();\n"
        "        for (int64_t i = 0; i < 2; i += 1) {\n"
        "            PTO2_SCOPE() {\n"
        "\n"
        "                // Spmd k: k\n"
        "                CoreTaskArgs params_t2;\n"
        "                params_t2.add_input(ext_x);\n"
        "                params_t2.add_inout(ext_out);\n"
        "                params_t2.dump(ext_out, ext_x);\n"
        "                PTO2TaskId params_t2_deps[1];\n"
        "                uint32_t params_t2_deps_count = 0;\n"
        "                params_t2_deps[params_t2_deps_count++] = b;\n"
        "                params_t2.set_dependencies(params_t2_deps, params_t2_deps_count);\n"
        "                params_t2.launch_spec.set_block_num(4);\n"
        "                params_t2.set_allow_early_resolve(true);\n"
        "                CoreTaskPredicate params_t2_pred;\n"
        "                params_t2_pred.operand.tensor = &ext_flags;\n"
        "                params_t2_pred.operand.ndims = 1;\n"
        "                params_t2_pred.operand.indices[0] = static_cast<uint32_t>(i);\n"
        "                params_t2_pred.op = PredicateOp::GE;\n"
        "                params_t2_pred.target = 3;\n"
        "                params_t2.set_predicate(params_t2_pred);\n"
        "                rt_submit_aiv_task(0, params_t2);\n"
        "            }\n"
        "        }\n"
    )


def test_the_program_after_each_pass_shows_it(tmp_path: Path) -> None:
    body = "a = k(x, out)\nk(x, out, deps=[a], dumps=[x], allow_early_resolve=True, predicate=pl.read(flags, [1]) > 0)"
    _, texts = passed(tmp_path, _program(body))
    assert texts["convert_to_ssa"].splitlines()[-1] == (
        "    k(x__ssa_v0, out__ssa_v0, deps=[a__ssa_v0], dumps=[x__ssa_v0], allow_early_resolve=True, "
        "predicate=pl.gt(flags__ssa_v0[1], 0))"
    )


def test_the_reference_of_a_predicate(tmp_path: Path) -> None:
    """In PyTorch a task with a predicate is a call under a condition; nothing waits, since calls have their order."""
    body = "a = k(x, out)\nb = pl.dummy_task([a])\nk(x, out, deps=[b], predicate=pl.read(flags, [1]) > 0)"
    text = program_text(typed_program(build_program(load(tmp_path, _program(body)))))
    lines = [line.partition("  # ")[0].strip() for line in text.splitlines()]
    assert lines[lines.index("def main(x, flags, out):") + 1 :][:3] == [
        "k(x, out)",
        "b = None",
        "if flags[(1,)].item() > 0: k(x, out)",
    ]


def test_may_has_no_marks(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        files(tmp_path, _program("k(x, out, dumps=[x])"), Options(VINTAGES["2026-05"]))
    assert str(caught.value).endswith(
        ":8:5: tasks of the API version 2026-05 have no dumps; compile for a later API version"
    )


def test_while_with_a_condition_that_is_an_expression(tmp_path: Path) -> None:
    assert _entry(tmp_path, "i = 0\nwhile i < 3:\n    k(x, out)\n    i += 1") == (
        "        int64_t i = 0;\n"
        "        while (i < 3) {\n"
        "            PTO2_SCOPE() {\n"
        "\n"
        "                // Task 0: k\n"
        "                CoreTaskArgs params_t0;\n"
        "                params_t0.add_input(ext_x);\n"
        "                params_t0.add_inout(ext_out);\n"
        "                rt_submit_aiv_task(0, params_t0);\n"
        "                int64_t i__ssa_v1 = (i + 1);\n"
        "                i = i__ssa_v1;\n"
        "            }\n"
        "        }\n"
    )


def test_while_with_a_condition_that_reads(tmp_path: Path) -> None:
    text = _entry(tmp_path, "i = 0\nwhile pl.read(flags, [i]) > 0:\n    k(x, out)\n    i += 1")
    assert text.startswith(
        "        int64_t i = 0;\n"
        "        while (true) {\n"
        "            uint32_t indices_tmp1[1] = {static_cast<uint32_t>(i)};\n"
        "            int32_t tmp1 = get_tensor_data<int32_t>(ext_flags, 1, indices_tmp1);\n"
        "            if (!(tmp1 > 0)) break;\n"
        "            PTO2_SCOPE() {\n"
    )


WRONG = {
    "a scope in a manual one": (
        "with pl.manual_scope():\n    with pl.scope():\n        k(x, out)",
        "9:9: pl.scope() cannot be used inside pl.manual_scope(); remove pl.scope(); deps= orders the tasks",
    ),
    "not a task": (
        "k(x, out, deps=[x])",
        "8:5: k: deps must be tasks, found a Tensor[[64, 64], FP32]; use the value of a kernel call: t = kernel(…)",
    ),
    "not a list": ("a = k(x, out)\nk(x, out, deps=a)", "9:20: deps is a list of tasks; t = kernel(…) is a task"),
    "never ends": (
        "while True:\n    k(x, out)",
        "8:5: the loop never ends; use a condition that depends on something the loop changes",
    ),
    "other context": (
        "with open('x'):\n    k(x, out)",
        "8:5: a with statement takes only pl.scope() or pl.manual_scope(); write one with statement for each scope",
    ),
    "a dump of something else": (
        "k(x, out, dumps=[flags])",
        "8:5: k: dumps= takes only tensors that the task takes as arguments",
    ),
    "a predicate that is no comparison": (
        "k(x, out, predicate=True)",
        "8:25: a predicate must compare one element with an integer, as in pl.read(tensor, [i, …]) > 0",
    ),
    "a predicate of a tensor of floats": (
        "k(x, out, predicate=pl.read(x, [0, 0]) > 0)",
        "8:5: a predicate must read a tensor of integers, found a Tensor[[64, 64], FP32]",
    ),
    "a predicate with too many indices": (
        "k(x, out, predicate=pl.read(flags, [0, 0]) > 0)",
        "8:5: the predicate has 2 indices, but the tensor has 1 extents",
    ),
    "a dummy that waits for a tensor": (
        "t = pl.dummy_task([x])\nk(x, out, deps=[t])",
        (
            "8:9: pl.dummy_task: deps must be tasks, found a Tensor[[64, 64], FP32]; use the value of "
            "a kernel call: t = kernel(…)"
        ),
    ),
    "a task as a tensor": (
        "a = k(x, out)\nk(a, out)",
        "9:5: k: x must be a tensor, found a Task; pass the tensor that the kernel writes",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(tmp_path: Path, name: str) -> None:
    body, expected = WRONG[name]
    with pytest.raises(CompileError) as caught:
        files(tmp_path, _program(body))
    assert str(caught.value) == f"{tmp_path / 'program.py'}:{expected}"


def test_and_reads_only_where_it_has_to(tmp_path: Path) -> None:
    """The bound is looked at first, so an index that is too large is never read."""
    text = _entry(tmp_path, "i = 0\nwhile i < 8 and pl.read(flags, [i]) > 0:\n    k(x, out)\n    i += 1")
    assert text.startswith(
        "        int64_t i = 0;\n"
        "        while (true) {\n"
        "            bool chosen0;\n"
        "            if ((i < 8)) {\n"
        "                PTO2_SCOPE() {\n"
        "                    uint32_t indices_tmp1[1] = {static_cast<uint32_t>(i)};\n"
        "                    int32_t tmp1 = get_tensor_data<int32_t>(ext_flags, 1, indices_tmp1);\n"
        "                    bool chosen0__ssa_v0 = (tmp1 > 0);\n"
        "                    chosen0 = chosen0__ssa_v0;\n"
        "                }\n"
        "            } else {\n"
        "                PTO2_SCOPE() {\n"
        "                    chosen0 = false;\n"
        "                }\n"
        "            }\n"
        "            if (!chosen0) break;\n"
    )
