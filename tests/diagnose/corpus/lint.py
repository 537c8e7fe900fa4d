"""Bugs that show without a run. An edit of nothing replaces the whole file."""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_DAG, _ORCH, _MANIFEST = "_jit_vector_dag", "orchestration/vector_dag.cpp", "kernel_config.py"
_ADD, _SHIFT, _MUL = (f"kernels/aiv/kernel_{name}.cpp" for name in ("add", "shift", "mul"))
_SOFTMAX = "kernels/aiv/softmax_rows.cpp"
_SILU = "kernels/aiv/gemm_silu_aiv.cpp"
_MUL_ROW = '"name": "kernel_mul"'
_MUL_SIGNATURE = '"core_type": "aiv", "signature": [_D.IN, _D.IN, _D.OUT]},\n]'
_TAIL = "ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);\n  return;"
_SUBMIT_3 = "rt_submit_aiv_task(2, params_t3);"
_WAIT = "wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);"
_SET = "set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);"
_OUT_POINTER = "reinterpret_cast<__gm__ float*>(out_tensor->buffer.addr) + out_tensor->start_offset"


def _lint(
    name: str, rule: str, file: str, at: str, says: str, *edits: tuple[str, str, str], artifact: str = _DAG
) -> Bug:
    return Bug(name, artifact, edits, f"lint/{rule}", file, at, says, tool="lint")


# fmt: off
BUGS = (
    _lint(
        "direction in the manifest", "signature-direction", _MANIFEST, _MUL_ROW,
        "argument 2 is INOUT in the signature, but add_output(g)",
        (_MANIFEST, _MUL_SIGNATURE, _MUL_SIGNATURE.replace("_D.OUT", "_D.INOUT")),
    ),
    _lint(
        "signature too short", "signature-count", _MANIFEST, _MUL_ROW,
        "the signature has 2 tensors, but the submission at orchestration/vector_dag.cpp:74 passes 3",
        (_MANIFEST, _MUL_SIGNATURE, _MUL_SIGNATURE.replace("_D.IN, _D.IN", "_D.IN")),
    ),
    _lint(
        "argument past the end", "argument-count", _MUL, "args[3]", "'out' is args[3], but",
        (_MUL, "__gm__ ChipTensor*>(args[2])", "__gm__ ChipTensor*>(args[3])"),
    ),
    _lint(
        "scalar read as a tensor", "argument-kind", _SHIFT, "ChipTensor*>(args[2])",
        "'out' is unpacked as a tensor, but orchestration/vector_dag.cpp:59 passes a scalar as argument 2",
        (_SHIFT, "__gm__ ChipTensor*>(args[1])", "__gm__ ChipTensor*>(args[2])"),
    ),
    _lint(
        "one argument fewer at the second submission", "argument-count", _ORCH, "rt_submit_aiv_task(1, params_t2);",
        "gets 2 tensors and 1 scalars here, but 2 tensors and 2 scalars at line 59",
        (_ORCH, "        params_t2.add_scalar(steps);\n", ""),
    ),
    _lint(
        "element type of an argument", "argument-dtype", _ADD, "a_tensor = ",
        "'a' is read as float32, but 'ext_a' of orchestration/vector_dag.cpp:48 is float16",
        ("compiled_meta.json", '"fp32"', '"fp16"'),
    ),
    _lint(
        "view read from its buffer's start", "start-offset", _MUL, "out_tensor = ",
        "the pointer to 'out' leaves out start_offset", (_MUL, " + out_tensor->start_offset", ""),
    ),
    _lint(
        "expected_arg_count", "expected-arg-count", _ORCH, ".expected_arg_count = 4",
        "expected_arg_count is 4, but the program has 5 parameters",
        (_ORCH, ".expected_arg_count = 5", ".expected_arg_count = 4"),
    ),
    _lint(
        "output declared as input of the program", "written-input", _MANIFEST, '"signature"',
        "argument 2 'acc' of the orchestration is declared IN, but add_inout(ext_acc)",
        (_MANIFEST, '"signature": [_D.IN, _D.IN, _D.INOUT],\n}', '"signature": [_D.IN, _D.IN, _D.IN],\n}'),
        ("compiled_meta.json", '"InOut"', '"In"'),
        artifact="_jit_accumulate",
    ),
    _lint(
        "tensor after a scalar", "tensor-after-scalar", _ORCH, "params_t1.add_output(d);",
        "add_output(d) after a scalar: the submission fails with INVALID_ARGS (5)",
        (_ORCH, "        params_t1.add_output(d);\n        params_t1.add_scalar(to_u64(alpha));\n",
         "        params_t1.add_scalar(to_u64(alpha));\n        params_t1.add_output(d);\n"),
    ),
    _lint(
        "no block to launch", "block-number", _ORCH, "set_block_num(0)", "a task of 0 blocks",
        (_ORCH, _SUBMIT_3, f"params_t3.launch_spec.set_block_num(0);\n        {_SUBMIT_3}"),
    ),
    _lint(
        "more blocks together than cores", "sync-start-limit", _ORCH, "set_require_sync_start(true)",
        "64 blocks must start together, but a2a3 has only 48 such cores",
        (_ORCH, _SUBMIT_3, "params_t3.launch_spec.set_block_num(64);\n        "
         f"params_t3.launch_spec.set_require_sync_start(true);\n        {_SUBMIT_3}"),
    ),
    _lint(
        "vector kernel submitted to the cube core", "core-type", _ORCH, "rt_submit_aic_task(2",
        "kernel 'kernel_mul' is submitted to the core aic, but its core_type is aiv",
        (_ORCH, "rt_submit_aiv_task(2", "rt_submit_aic_task(2"),
    ),
    _lint(
        "tensor larger than the heap", "heap-limit", _ORCH, "TensorCreateInfo g_ci(",
        "'g' needs 512 MiB, but the heap of a ring has only 256 MiB",
        (_ORCH, "g_ci_shapes[2] = {128, 128}", "g_ci_shapes[2] = {8192, 16384}"),
    ),
    _lint(
        "automatic scope inside a manual one", "scope-nesting", "orchestration/row_blocks.cpp",
        "            PTO2_SCOPE() {", "this automatic scope is inside the manual scope of line 27",
        ("orchestration/row_blocks.cpp", "    PTO2_SCOPE() {\n        for", "    PTO2_SCOPE(PTO2ScopeMode::MANUAL) {\n        for"),
        artifact="_jit_row_blocks",
    ),
    _lint(
        "output not drained", "no-drain", _MUL, "TSTORE(v20, v17);",
        "kernel 'kernel_mul' ends without waiting for this store", (_MUL, _TAIL, "return;"),
    ),
    _lint(
        "flag that nobody waits for", "unpaired-flag", _MUL, "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);",
        "has no matching wait_flag: nothing waits for it", (_MUL, _WAIT, ""),
    ),
    _lint(
        "flag that is never set", "unpaired-flag", _MUL, "wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);",
        "has no matching set_flag: the pipe waits for ever", (_MUL, _SET, ""),
    ),
    _lint(
        "block number from a register", "intrinsic-without-args", _MUL, "get_block_idx()",
        "get_block_idx() reads a register that is not set when tasks run",
        (_MUL, "const int64_t v8 = 0;", "const int64_t v8 = get_block_idx();"),
    ),
    _lint(
        "no entry", "no-entry", _MUL, "", "kernel 'kernel_mul' defines no kernel_entry",
        (_MUL, "void kernel_entry(", "void kernel_main("),
    ),
    _lint(
        "code for the other core", "core-section", _MUL, "#if defined(__DAV_CUBE__)", "where the function does nothing",
        (_MUL, "#if defined(__DAV_VEC__)", "#if defined(__DAV_CUBE__)"),
    ),
    _lint(
        "argument forgotten in the call", "call-count", _MUL, "kernel_mul(a, b);", "takes 3 arguments, but 2 are passed",
        (_MUL, "kernel_mul(a, b, out);", "kernel_mul(a, b);"),
    ),
    _lint(
        "kind of the module", "pto", "ptoas/kernel_mul.pto", "pto.tmul",
        "pto.tmul: is an operation of the vector core, but the function is a cube kernel",
        ("ptoas/kernel_mul.pto", "#pto.kernel_kind<vector>", "#pto.kernel_kind<cube>"),
    ),
    _lint(
        "element type of the module", "pto-signature", "ptoas/kernel_shift.pto", "func.func @kernel_shift",
        "is int64, but kernels/aiv/kernel_shift.cpp passes 'steps' as int32",
        ("ptoas/kernel_shift.pto", "%arg3: i32", "%arg3: i64"),
        ("ptoas/kernel_shift.pto", "%arg3 : i32 to", "%arg3 : i64 to"),
    ),
    _lint(
        "barrier taken out of a kernel", "edited-body", _SOFTMAX, "TEXP(v17, v16);",
        "'pipe_barrier(PIPE_V);' is missing before this line; ptoas/softmax_rows.cpp has it",
        (_SOFTMAX, "  pipe_barrier(PIPE_V);\n  TEXP", "  TEXP"), artifact="_jit_softmax",
    ),
    _lint(
        "flag under another number", "edited-body", _SOFTMAX, "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);",
        "but ptoas/softmax_rows.cpp has 'set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);'",
        (_SOFTMAX, "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);", "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);"),
        (_SOFTMAX, "wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);", "wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);"),
        artifact="_jit_softmax",
    ),
    _lint(
        "address of a tile", "edited-body", _SOFTMAX, "const int64_t v12 = 98304;",
        "this address differs from the assembler's output: 'const int64_t v12 = 98304;', but",
        (_SOFTMAX, "const int64_t v12 = 65536;", "const int64_t v12 = 98304;"), artifact="_jit_softmax",
    ),
    _lint(
        "type of a tile", "edited-body", _SOFTMAX, "float, 64, 2,", "this tile type differs from the assembler's output",
        (_SOFTMAX, "float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> "
         "v18", "float, 64, 2, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v18"),
        artifact="_jit_softmax",
    ),
    _lint(
        "slot of a pipe that is not freed", "edited-body", _SILU, "tmp3__ssa_v0(16, 64);",
        "this call of a pipe differs from the assembler's output: 'TFREE<decltype(pipe0), TileSplitAxis::TILE_NO_SPLIT>(pipe0);'",
        (_SILU, "        TFREE<decltype(pipe0), TileSplitAxis::TILE_NO_SPLIT>(pipe0);\n", ""), artifact="_jit_gemm_silu",
    ),
    _lint(
        "module edited and not spliced", "not-spliced", "ptoas/softmax_rows.pto", "pto.trowmin",
        "1 pto.trowmin here, 0 TROWMIN, and 1 TROWMAX, in kernels/aiv/softmax_rows.cpp",
        ("ptoas/softmax_rows.pto", "pto.trowmax", "pto.trowmin"), artifact="_jit_softmax",
    ),
    _lint(
        "address edited in the module and not spliced", "not-spliced", "ptoas/softmax_rows.pto", "%m__ssa_v0 =",
        "a tile at address 147456 here, no such address in kernels/aiv/softmax_rows.cpp",
        ("ptoas/softmax_rows.pto", "= arith.constant 131072 :", "= arith.constant 147456 :"), artifact="_jit_softmax",
    ),
    _lint(
        "kernel that no task runs", "never-submitted", _MANIFEST, '"func_id": 3', "no submitted task runs kernel 3 'kernel_spare'",
        (_MANIFEST, "\n]", '\n\t{"func_id": 3, "name": "kernel_spare", "source": str(_ROOT_DIR / "kernels" / "aiv" / '
         '"kernel_mul.cpp"), "core_type": "aiv"},\n]'),
    ),
    _lint(
        "kernel number that does not exist", "artifact", _ORCH, "rt_submit_aiv_task(7", "submits func_id 7, but no kernel in the manifest has this func_id",
        (_ORCH, "rt_submit_aiv_task(2", "rt_submit_aiv_task(7"),
    ),
    _lint(
        "source that is not there", "artifact", _MANIFEST, _MUL_ROW, "kernels/aiv/kernel_mull.cpp",
        (_MANIFEST, '"kernel_mul.cpp"', '"kernel_mull.cpp"'),
    ),
    _lint(
        "orchestration of an unknown vintage", "artifact", _ORCH, "", "unknown API version",
        (_ORCH, "", "// nothing\nvoid aicpu_orchestration_entry() {}\n"),
    ),
)
# fmt: on
