"""Bugs that only a replay of the checked build shows."""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_DAG, _DAG_FILE = "_jit_vector_dag", "orchestration/vector_dag.cpp"
_SOFTMAX, _SOFTMAX_FILE = "_jit_softmax", "kernels/aiv/softmax_rows.cpp"
_ROWS_FILE = "orchestration/row_blocks.cpp"
_MUL = "kernels/aiv/kernel_mul.cpp"
_CREATED = "c_ci(c_ci_shapes, 2, DataType::FLOAT32"
_UNTRACKED = "/*manual_dep=*/true"
_V_TO_MTE3 = "  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n"
_MTE2_TO_V = "  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\n  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\n"
_RMS, _RMS_FILE = "_jit_rms_norm", "kernels/aiv/rms_norm_rows.cpp"
_ACC_FILE, _MATMUL_FILE = "kernels/aiv/axpy_acc.cpp", "kernels/aic/matmul_tile.cpp"
_V_TO_MTE2 = "  set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);\n  wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);\n"
_SUBMIT = "rt_submit_aiv_task(1, params_t1);"
_ROUND_TRIP = """TSTORE(v20, v17);
  pipe_barrier(PIPE_ALL);
  TLOAD(v7, v20);
  pipe_barrier(PIPE_ALL);
  TSTORE(v20, v7);"""

BUGS = (
    Bug(
        "reader without dependency", _DAG,
        ((_DAG_FILE, "params_t1.add_input(c);", "params_t1.add_no_dep(c);"),),
        "hazards/raw", _DAG_FILE, "params_t1.add_no_dep(c);",
        "task 0 kernel_add writes 'c' and task 1 kernel_shift reads it (bytes 0 to 65536); nothing orders", True,
    ),
    Bug(
        "writer without dependency", _DAG,
        ((_DAG_FILE, "params_t0.add_output(c);", "params_t0.add_no_dep(c);"),),
        "hazards/raw", _DAG_FILE, "params_t1.add_input(c);", "task 0 'c' as add_output", True,
    ),
    Bug(
        "two writers of one tensor", _DAG,
        ((_DAG_FILE, "params_t2.add_output(e);", "params_t2.add_output(d);"),),
        "hazards/waw", _DAG_FILE, "params_t2.add_output(d);", "task 2 kernel_shift writes it", True,
        ("hazards/unwritten",),
    ),
    Bug(
        "tensor overwritten under its reader", _DAG,
        ((_DAG_FILE, "params_t2.add_output(e);", "params_t2.add_output(c);"),),
        "hazards/war", _DAG_FILE, "params_t2.add_output(c);",
        "task 1 kernel_shift reads 'c' and task 2 kernel_shift overwrites it", True,
        ("hazards/unwritten",),
    ),
    Bug(
        "tensor that the runtime does not track", _DAG,
        ((_DAG_FILE, f"{_CREATED})", f"{_CREATED}, {_UNTRACKED})"),),
        "hazards/raw", _DAG_FILE, "params_t1.add_input(c);", "create it without manual_dep", True,
    ),
    Bug(
        "blocks of rows over each other", "_jit_row_blocks",
        ((_ROWS_FILE, "ob_offsets[2] = {static_cast<uint32_t>(i), 0};", "ob_offsets[2] = {0, 0};"),),
        "hazards/waw", _ROWS_FILE, "params_t0.add_output(ob);", "nothing orders the two", True,
        ("hazards/unwritten-output",),
    ),
    Bug(
        "output declared as input", _DAG,
        ((_DAG_FILE, "params_t3.add_output(g);", "params_t3.add_input(g);"),),
        "hazards/written-input", _DAG_FILE, "params_t3.add_input(g);",
        "task 3 kernel_mul writes 'g' (TSTORE), but declares it add_input(g)", True,
    ),
    Bug(
        "accumulator declared as output", "_jit_accumulate",
        (("orchestration/accumulate.cpp", "params_t1.add_inout(ext_acc);", "params_t1.add_output(ext_acc);"),),
        "hazards/read-output", "orchestration/accumulate.cpp", "params_t1.add_output(ext_acc);",
        "task 1 axpy_acc reads 'acc' (TLOAD), but declares it add_output(ext_acc)", True,
    ),
    Bug(
        "round trip through global memory", _DAG,
        ((_MUL, "TSTORE(v20, v17);", _ROUND_TRIP),),
        "hazards/read-output", _DAG_FILE, "params_t3.add_output(g);",
        "after it has written it: a round trip through global memory", True,
    ),
    Bug(
        "dependency that orders nothing", _DAG,
        (
            (_DAG_FILE, _SUBMIT, f"TaskOutputTensors first = {_SUBMIT}"),
            (_DAG_FILE, "params_t2.add_input(c);", "params_t2.add_input(c);\n    params_t2.add_dep(first.task_id());"),
        ),
        "hazards/wasted-dependency", _DAG_FILE, "params_t2.add_dep(first.task_id());",
        "task 2 kernel_shift waits for task 1 kernel_shift", True,
    ),
    Bug(
        "dependency that the tensors imply", _DAG,
        (
            (_DAG_FILE, _SUBMIT, f"TaskOutputTensors first = {_SUBMIT}"),
            (_DAG_FILE, "params_t3.add_input(d);", "params_t3.add_input(d);\n    params_t3.add_dep(first.task_id());"),
        ),
        "hazards/wasted-dependency", _DAG_FILE, "params_t3.add_dep(first.task_id());",
        "because of an explicit dependency, though the tensors that they share order the two already", True,
    ),
    Bug(
        "blocks of a launch write one place", "_jit_spmd_scale",
        (("kernels/aiv/scale_rows.cpp", "(arg1 + row__idx_v0 * 64,", "(arg1,"),),
        "hazards/blocks", "kernels/aiv/scale_rows.cpp", "TSTORE(", "while block 1 writes the same bytes (TSTORE)",
    ),
    Bug(
        "lanes of a group write one place", "_jit_gemm_silu_lanes",
        (("kernels/aiv/gemm_silu_aiv.cpp", "(arg3 + (lane_row * 128", "(arg3 + (arg5 * 128"),),
        "hazards/lanes", "kernels/aiv/gemm_silu_aiv.cpp", "TSTORE(", "AIV0 writes 'out' (TSTORE) while AIV1 writes",
    ),
    Bug(
        "view beyond its tensor", _DAG,
        (("kernels/aiv/kernel_add.cpp", "TLOAD(v7, v11);", "v11.SetAddr(v1 + 8192);\n  TLOAD(v7, v11);"),),
        "hazards/out-of-bounds", "kernels/aiv/kernel_add.cpp", "TLOAD(v7, v11);",
        "TLOAD: reads bytes 32768 to 98304 of tensor argument 0",
    ),
    Bug(
        "rows that no task stores", _DAG,
        ((_MUL, "TSTORE(v20, v17);", "v17.SetValidShape(126, 128); TSTORE(v20, v17);"),),
        "hazards/unwritten", "kernels/aiv/kernel_add.cpp", "TLOAD(v7, v11);",
        "task 4 kernel_add: TLOAD reads 1024 bytes of 'g' that no task writes; they are among bytes 64512 to 65536",
    ),
    Bug(
        "tile never written", _SOFTMAX,
        ((_SOFTMAX_FILE, "  TROWMAX(v15, v7, v13);\n", ""),),
        "check/never-written", _SOFTMAX_FILE, "TROWEXPANDSUB(v16, v7, v15);", "reads a tile at UB 0x20000",
    ),
    Bug(
        "columns never written", _SOFTMAX,
        ((_SOFTMAX_FILE, "TLOAD(v7, v11);", "v7.SetValidShape(64, 250); TLOAD(v7, v11); v7.SetValidShape(64, 256);"),),
        "check/never-written", _SOFTMAX_FILE, "TROWMAX(v15, v7, v13);", "reads bytes at UB 0x3e8",
    ),
    Bug(
        "store that does not wait for the vector pipe", _SOFTMAX,
        ((_SOFTMAX_FILE, _V_TO_MTE3, ""),),
        "check/unordered-pipes", _SOFTMAX_FILE, "TSTORE(v22, v19);",
        "TSTORE on PIPE_MTE3 reads the 64x256 tile at UB 0x0, which TROWEXPANDDIV wrote on PIPE_V", True,
    ),
    Bug(
        "vector pipe that does not wait for the load", _SOFTMAX,
        ((_SOFTMAX_FILE, _MTE2_TO_V, ""),),
        "check/unordered-pipes", _SOFTMAX_FILE, "TROWMAX(v15, v7, v13);", "which TLOAD wrote on PIPE_MTE2", True,
    ),
    Bug(
        "load over a tile that the vector pipe uses", _RMS, ((_RMS_FILE, _V_TO_MTE2, ""),),
        "check/unordered-pipes", _RMS_FILE, "TLOAD(v30, v33);",
        "TLOAD on PIPE_MTE2 overwrites the 1x256 tile at UB 0x18000, which ", True,
    ),
    Bug(
        "extraction over an operand that the cube reads", "_jit_matmul",
        ((_MATMUL_FILE, "    }\n    pipe_barrier(PIPE_ALL);\n  }", "    }\n  }"),),
        "check/unordered-pipes", _MATMUL_FILE, "TEXTRACT(v20, v8, v9, v19);",
        "overwrites the 128x128 tile at L0A 0x0, which TMATMUL reads on PIPE_M", True,
    ),
    Bug(
        "tile changed while it is stored", _SOFTMAX,
        ((_SOFTMAX_FILE, "TSTORE(v22, v19);", "TSTORE(v22, v19);\n  TADDS(v19, v19, 1.0f);"),),
        "check/unordered-pipes", _SOFTMAX_FILE, "TADDS(v19, v19, 1.0f);",
        "TADDS on PIPE_V overwrites the 64x256 tile at UB 0x0, which TSTORE reads on PIPE_MTE3", True,
    ),
    Bug(
        "wait that was dropped", _SOFTMAX, ((_SOFTMAX_FILE, "  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n", ""),),
        "check/unordered-pipes", _SOFTMAX_FILE, "TSTORE(v22, v19);", "TSTORE on PIPE_MTE3 reads", True,
    ),
    Bug(
        "wait that was dropped where a barrier orders too", "_jit_matmul",
        ((_MATMUL_FILE, "  wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);\n", ""),),
        "check/flags", _MATMUL_FILE, "set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);", "the next kernel on this core finds it set",
    ),
    Bug(
        "no barrier after a reduction", _SOFTMAX,
        ((_SOFTMAX_FILE, "  pipe_barrier(PIPE_V);\n  TROWEXPANDDIV", "  TROWEXPANDDIV"),),
        "check/no-barrier", _SOFTMAX_FILE, "TROWEXPANDDIV(v19, v17, v18);",
        "reads the 64x1 tile at UB 0x20000, which TROWSUM wrote on PIPE_V; no pipe_barrier(PIPE_V) lies between", True,
    ),
    Bug(
        "no barrier between short vector instructions", _RMS,
        ((_RMS_FILE, "  pipe_barrier(PIPE_V);\n  TRSQRT", "  TRSQRT"),),
        "check/no-barrier", _RMS_FILE, "TRSQRT(", "which TADDS wrote on PIPE_V", True,
    ),
    Bug(
        "scratch tile on a tile in use", _SOFTMAX,
        ((_SOFTMAX_FILE, "TROWSUM(v18, v17, v13);", "TROWSUM(v18, v17, v17);"),),
        "check/scratch", _SOFTMAX_FILE, "TROWEXPANDDIV(v19, v17, v18);",
        "reads the 64x256 tile at UB 0x0, in which TROWSUM has worked since it was written",
    ),
    Bug(
        "wait for a flag that is never set", _RMS,
        ((_RMS_FILE, _V_TO_MTE2, _V_TO_MTE2.split("\n")[1] + "\n"),),
        "check/flags", _RMS_FILE, "wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);",
        "waits for ever: 1 of the 1 times that it is reached, no set_flag is left for it", True,
    ),
    Bug(
        "flag of a loop that is never set", "_jit_accumulate",
        ((_ACC_FILE, "    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n", ""),),
        "check/flags", _ACC_FILE, "wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);", "2 of the 2 times", True,
    ),
    Bug(
        "one set for two waits", "_jit_matmul",
        ((
            _MATMUL_FILE, "    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);",
            "    if (v19 == v9) set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);",
        ),),
        "check/flags", _MATMUL_FILE, "wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);", "1 of the 2 times",
    ),
    Bug(
        "flag set under another number", _RMS,
        ((_RMS_FILE, _V_TO_MTE2, _V_TO_MTE2.replace("EVENT_ID0", "EVENT_ID3", 1)),),
        "check/flags", _RMS_FILE, "set_flag(PIPE_V, PIPE_MTE2, EVENT_ID3);",
        "is never waited for, and wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0) waits for ever", True,
    ),
    Bug(
        "flag set once too often", "_jit_accumulate",
        ((_ACC_FILE, "    pipe_barrier(PIPE_V);\n", "    set_flag(PIPE_S, PIPE_V, EVENT_ID1);\n    pipe_barrier(PIPE_V);\n"),),
        "check/flags", _ACC_FILE, "set_flag(PIPE_S, PIPE_V, EVENT_ID1);",
        "is never waited for: the next kernel on this core finds it set",
    ),
    Bug(
        "tile beyond the memory", _SOFTMAX,
        ((_SOFTMAX_FILE, "const int64_t v14 = 131072;", "const int64_t v14 = 196480;"),),
        "check/capacity", _SOFTMAX_FILE, "TROWMAX(v15, v7, v13);", "UB ends at 0x30000",
    ),
    Bug(
        "tile at an odd address", _SOFTMAX,
        ((_SOFTMAX_FILE, "const int64_t v14 = 131072;", "const int64_t v14 = 131076;"),),
        "check/misaligned", _SOFTMAX_FILE, "TROWMAX(v15, v7, v13);", "is not aligned to 32 bytes",
    ),
    Bug(
        "valid region larger than the tile", _SOFTMAX,
        ((_SOFTMAX_FILE, "TROWSUM(v18, v17, v13);", "v17.SetValidShape(65, 256);\n  TROWSUM(v18, v17, v13);"),),
        "check/valid-region", _SOFTMAX_FILE, "TROWSUM(v18, v17, v13);",
        "TROWSUM: the 64x256 tile at UB 0x0 has a valid region of 65x256",
    ),
    Bug(
        "tile without an address", _DAG,
        ((_MUL, "  TASSIGN(v13, v12);\n", ""),),
        "check/unplaced", _MUL, "TLOAD(v13, v16);", "TLOAD: a tile has no address",
    ),
    Bug(
        "element outside of its tile", _DAG,
        ((_MUL, "  TMUL(v17, v7, v13);\n", "  TMUL(v17, v7, v13);\n  v17.SetValue(20000, 0.0f);\n"),),
        "check/outside-tile", _MUL, "v17.SetValue(20000, 0.0f);", "outside",
    ),
    Bug(
        "output whose task is not submitted", _DAG, ((_DAG_FILE, "        rt_submit_aiv_task(0, params_t4);\n", ""),),
        "hazards/unwritten-output", _DAG_FILE, "& ext_f =",
        "no task writes any of the 16384 elements of output 'f' (bytes 0 to 65536): no submitted task has this tensor as an output",
    ),
    Bug(
        "loop that ends early", "_jit_row_blocks", ((_ROWS_FILE, "i < 200", "i < 192"),),
        "hazards/unwritten-output", _ROWS_FILE, "i < 192",
        "1024 of the 25600 elements of output 'out' (bytes 98304 to 102400): the 3 tasks that this loop submits end",
    ),
    Bug(
        "loop that starts late", "_jit_row_blocks", ((_ROWS_FILE, "int64_t i = 0", "int64_t i = 64"),),
        "hazards/unwritten-output", _ROWS_FILE, "int64_t i = 64", "(bytes 0 to 32768): the 3 tasks that this loop submits begin",
    ),
    Bug(
        "rows of an output that its kernel leaves out", _DAG,
        (("kernels/aiv/kernel_add.cpp", "TSTORE(v20, v17);", "v17.SetValidShape(126, 128); TSTORE(v20, v17);"),),
        "hazards/unwritten-output", "kernels/aiv/kernel_add.cpp", "TSTORE(v20, v17);",
        "task 4 kernel_add should write these bytes, but its TSTORE leaves them out",
    ),
    Bug(
        "tensor whose producer is not submitted", _DAG,
        ((_DAG_FILE, "        rt_submit_aiv_task(1, params_t2);\n", ""),),
        "hazards/unwritten", _DAG_FILE, "& e =", "no task writes the tensor 'e', but task 2 kernel_mul reads it",
    ),
    Bug(
        "view smaller than what its kernel works on", "_jit_row_blocks",
        ((_ROWS_FILE, "0u : std::min<uint32_t>(64, ext_out.shapes[0]", "0u : std::min<uint32_t>(32, ext_out.shapes[0]"),),
        "hazards/out-of-bounds", _ROWS_FILE, "ChipTensor ob =",
        "the view 'ob' has 16384 bytes, but task 0 gate_rows accesses 32768 bytes (TSTORE)",
    ),
    Bug(
        "allocated tensor smaller than what its kernel works on", _DAG,
        ((_DAG_FILE, "uint32_t d_ci_shapes[2] = {128, 128}", "uint32_t d_ci_shapes[2] = {64, 128}"),),
        "hazards/out-of-bounds", _DAG_FILE, "uint32_t d_ci_shapes[2]",
        "task 1 kernel_shift gets 'd' of 32768 bytes as argument 1, but accesses 65536 bytes (TSTORE); task 2 gets 'e' of 65536",
    ),
    Bug(
        "input that is never read", _DAG,
        ((_MUL, "(v2 + (v8 * v4 + v8 * v5), v14, v15)", "(v1 + (v8 * v4 + v8 * v5), v14, v15)"),),
        "hazards/untouched", _DAG_FILE, "params_t3.add_input(e);",
        "task 3 kernel_mul never touches 'e', which is declared add_input(e)", True,
    ),
)  # fmt: skip
