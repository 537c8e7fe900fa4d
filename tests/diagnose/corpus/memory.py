"""Markers of visibility that are missing: what others see of a store, and what a core's data cache holds
(MEMORY=weak)."""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_DAG, _DAG_FILE = "_jit_vector_dag", "orchestration/vector_dag.cpp"
_MUL = "kernels/aiv/kernel_mul.cpp"
_SOFTMAX, _SOFTMAX_FILE = "_jit_softmax", "kernels/aiv/softmax_rows.cpp"
_ACC, _ACC_FILE = "_jit_accumulate", "kernels/aiv/axpy_acc.cpp"
_MATMUL, _MATMUL_FILE = "_jit_matmul", "kernels/aic/matmul_tile.cpp"
_SPMD, _SPMD_FILE = "_jit_spmd_scale", "kernels/aiv/scale_rows.cpp"
_SPMD_ORCHESTRATION = "orchestration/spmd_scale.cpp"
_TAIL = "  ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);\n"

_STORE = "TSTORE(v20, v17);"
#: The kernel reads what it has written, and says so.
_READS_IT = (_DAG_FILE, "params_t3.add_output(g);", "params_t3.add_inout(g);")
_ALL = "dcci((__gm__ void *)0, cache_line_t::ENTIRE_DATA_CACHE);"
_FENCE = "dsb(DSB_DDR);"
_OVER = f"pipe_barrier(PIPE_MTE3);\n  {_FENCE}"
#: Row 127 of the result by the scalar unit: 8 lines.
_ROW = "for (int64_t i = 0; i < 128; ++i) v3[127 * 128 + i] = 0.0f;"
_TILE_BUT_LAST = f"v17.SetValidShape(127, 128); {_STORE}"


def _pair(first: str, second: str) -> str:
    return f"set_flag({first}, {second}, EVENT_ID0);\n  wait_flag({first}, {second}, EVENT_ID0);"


_LOADED = f"{_pair('PIPE_V', 'PIPE_MTE2')}\n  TLOAD(v13, v20);"
_AGAIN = f"TLOAD(v13, v20);\n  {_pair('PIPE_MTE2', 'PIPE_MTE3')}\n  TSTORE(v20, v13);"


def _mul(name: str, statements: str, rule: str, at: str, says: str, fixed: bool = True) -> Bug:
    return Bug(name, _DAG, ((_MUL, _STORE, statements), _READS_IT), f"memory/{rule}", _MUL, at, says, fixed)


#: Rows of the next block.
_NEXT = """    pipe_barrier(PIPE_ALL);
    SYNCALL();
    const int64_t next = (tmp1__ssa_v0 + 1) % tmp0__ssa_v0 * share__ssa_v0;
    Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null> theirs(16, 64);
    TASSIGN(theirs, 16384);
    GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>, pto::Stride<1024, 1024, 1024, 64, 1>> view(arg1 + (next + 16) * 64);
    TLOAD(theirs, view);
    pipe_barrier(PIPE_ALL);
"""

BUGS = (
    _mul(
        "store that is loaded again behind flags", f"{_STORE}\n  {_pair('PIPE_MTE3', 'PIPE_MTE2')}\n  {_AGAIN}",
        "stale-load", "TLOAD(v13, v20);",
        "TLOAD loads bytes 0 to 65536 of 'g', which TSTORE stored on PIPE_MTE3: flags order the pipes, but no dsb",
    ),
    _mul(
        "store that is loaded again behind a barrier", f"{_STORE}\n  pipe_barrier(PIPE_ALL);\n  {_AGAIN}",
        "stale-load", "TLOAD(v13, v20);", "no dsb after the store is over makes it visible",
    ),
    _mul(
        "fence before the store is over", f"{_STORE}\n  {_FENCE}\n  {_pair('PIPE_MTE3', 'PIPE_MTE2')}\n  {_AGAIN}",
        "stale-load", "TLOAD(v13, v20);", "no dsb after the store is over makes it visible",
    ),
    Bug(
        "rows of the iteration before", _ACC,
        ((_ACC_FILE, "Layout::ND>(v2 + (v8 * v4 + v6 * v5), v16,", "Layout::ND>(v2 + (v8 / 2 * v4 + v6 * v5), v16,"),),
        "memory/stale-load", _ACC_FILE, "TLOAD(v15, v18);", "bytes 16384 to 32768 of 'acc', which TSTORE stored", True,
    ),
    _mul(
        "row that stays in the data cache", f"{_TILE_BUT_LAST}\n  {_ROW}", "unclean-store", _ROW,
        "plain write of bytes 65024 to 65088 of 'g' stays in the core's data cache: no dcci writes the line back",
    ),
    _mul(
        "lines of another tensor cleaned",
        f"{_TILE_BUT_LAST}\n  {_ROW}\n  for (int64_t i = 0; i < 128; ++i) dcci(v2 + 127 * 128 + i, SINGLE_CACHE_LINE);",
        "unclean-store", _ROW, "no dcci writes the line back",
    ),
    _mul(
        "first line of eight cleaned",
        f"{_TILE_BUT_LAST}\n  {_ROW}\n  dcci(v3 + 127 * 128, cache_line_t::SINGLE_CACHE_LINE);\n  {_FENCE}",
        "unclean-store", _ROW, "no dcci writes the line back",
    ),
    _mul(
        "cleaned before it is written", f"{_TILE_BUT_LAST}\n  {_ALL}\n  {_FENCE}\n  {_ROW}", "unclean-store", _ROW,
        "no dcci writes the line back",
    ),
    _mul(
        "pipe that loads what the data cache holds",
        f"{_TILE_BUT_LAST}\n  {_OVER}\n  {_ROW}\n  {_LOADED}\n  {_ALL}\n  {_FENCE}", "unclean-load", "TLOAD(v13, v20);",
        "which a plain write has put into the core's data cache: no dcci has written the line back",
    ),
    _mul(
        "pipe that loads before the line is written back",
        f"{_TILE_BUT_LAST}\n  {_OVER}\n  {_ROW}\n  {_ALL}\n  {_LOADED}\n  {_FENCE}", "unclean-load", "TLOAD(v13, v20);",
        "dcci has written the line back, and no dsb waits for it",
    ),
    _mul(
        "scalar that is read behind a flag",
        f"{_STORE}\n  {_pair('PIPE_MTE3', 'PIPE_S')}\n  if (v3[0] > 1e30f) pipe_barrier(PIPE_V);", "stale-read",
        "if (v3[0] > 1e30f)", "plain read of bytes 0 to 4 of 'g' returns the value from before TSTORE: no dsb",
    ),
    _mul(
        "scalar that is read again",
        f"if (v3[0] > 1e30f) pipe_barrier(PIPE_M);\n  {_STORE}\n  {_OVER}\n"
        "  if (v3[1] > 1e30f) pipe_barrier(PIPE_V);", "stale-read",
        "if (v3[1] > 1e30f)", "the line is in the core's data cache since then",
    ),
    _mul(
        "scalar read before it is dropped",
        f"if (v3[0] > 1e30f) pipe_barrier(PIPE_M);\n  {_STORE}\n  {_OVER}\n"
        f"  if (v3[1] > 1e30f) pipe_barrier(PIPE_V);\n  {_ALL}", "stale-read",
        "if (v3[1] > 1e30f)", "returns the value from before TSTORE",
    ),
    _mul(
        "scalar into an old line",
        f"if (v3[0] > 1e30f) pipe_barrier(PIPE_M);\n  {_STORE}\n  {_OVER}\n  v3[1] = 0.0f;\n  {_ALL}\n  {_FENCE}",
        "lost-store", "v3[1] = 0.0f;",
        "a line that the data cache holds since before TSTORE stored there: written back whole, it overwrites",
    ),
    _mul(
        "scalar into the line of a store that is under way", f"{_STORE}\n  v3[1] = 0.0f;\n  {_ALL}\n  {_FENCE}",
        "lost-store", "v3[1] = 0.0f;", "written back whole, it overwrites what was stored",
    ),
    _mul(
        "store over a line that was changed", f"v3[1] = 0.0f;\n  {_STORE}\n  {_OVER}\n  {_ALL}\n  {_FENCE}",
        "lost-store", _STORE, "a line that a plain write has changed in the core's data cache",
    ),
    Bug(
        "blocks of a launch in one line", _SPMD,
        ((
            _SPMD_FILE, "    }\n#endif // __DAV_VEC__",
            f"    }}\n    arg1[__pypto_spmd_block_idx] = 0.0f;\n    {_ALL} {_FENCE}\n#endif // __DAV_VEC__",
        ), (_SPMD_FILE, "TSTORE(y__ssa_v0_pview_1_tensor, tmp3__ssa_v0);", "")),
        "memory/shared-line", _SPMD_FILE, "arg1[__pypto_spmd_block_idx] = 0.0f;",
        "store at the same time into one 64-byte line, bytes 0 to 64 of 'y'",
    ),
    Bug(
        "scalar in the line of another block's rows", _SPMD,
        ((
            _SPMD_FILE, "TSTORE(y__ssa_v0_pview_1_tensor, tmp3__ssa_v0);",
            "if (__pypto_spmd_block_idx == 1) TSTORE(y__ssa_v0_pview_1_tensor, tmp3__ssa_v0);\n"
            f"        else if (__pypto_spmd_block_idx == 0) arg1[32 * 64] = 0.0f;\n        {_ALL} {_FENCE}",
        ), (_SPMD_FILE, "arg1 + row__idx_v0 * 64, pto::Shape", "arg1 + row__idx_v0 * 64 + 8, pto::Shape")),
        "memory/shared-line", _SPMD_FILE, "arg1[32 * 64] = 0.0f;", "at the same time",
    ),
    Bug(
        "block that reads another's rows after a barrier", _SPMD,
        (
            (_SPMD_FILE, "    }\n#endif // __DAV_VEC__", f"    }}\n{_NEXT}#endif // __DAV_VEC__"),
            (_SPMD_ORCHESTRATION, "params_t0.add_output(ext_y);", "params_t0.add_inout(ext_y);"),
            (_SPMD_ORCHESTRATION, "set_block_num(8);", "set_block_num(8);\n        params_t0.launch_spec.set_require_sync_start(true);"),
        ),
        "memory/unfenced-barrier", _SPMD_FILE, "TSTORE(y__ssa_v0_pview_1_tensor, tmp3__ssa_v0);",
        "reads it after the SYNCALL (TLOAD, from byte", True,
    ),
    Bug(
        "kernel that ends before its store", _SOFTMAX, ((_SOFTMAX_FILE, _TAIL, ""),),
        "memory/unfinished-store", _SOFTMAX_FILE, "TSTORE(v22, v19);",
        "TSTORE on PIPE_MTE3 stores bytes 0 to 65536 of 'out' and may still be under way when the kernel returns", True,
    ),
    Bug(
        "kernel that ends with a barrier of another pipe", _MATMUL, ((_MATMUL_FILE, _TAIL, "  pipe_barrier(PIPE_MTE3);\n"),),
        "memory/unfinished-store", _MATMUL_FILE, "TSTORE(v25, v18);", "TSTORE on PIPE_FIX stores", True,
    ),
)  # fmt: skip

_SEND = "next_levels/stage_one/kernels/aiv/scale_and_send.cpp"
_RECEIVE = "next_levels/stage_two/kernels/aiv/receive_and_shift.cpp"
_PUT = "next_levels/exchange/kernels/aiv/put_parts.cpp"
_PIPELINE, _EXCHANGE, _ALLREDUCE = "_jit_dist_pipeline", "_jit_dist_all_to_all", "_jit_dist_allreduce"
_SUM = "next_levels/reduce/kernels/aiv/sum_ranks.cpp"
_DRAINED = "    pipe_barrier(PIPE_ALL);\n    dsb(DSB_DDR);\n"
_TOLD = "  // Everybody is told that this rank's part is there, and every part is waited for.\n"
#: The rank's part is written into its own window by the kernel that tells of it, as in an all-reduce in one kernel.
_STAGED = f"""  using Stage = Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null>;
  Stage v20(1, 256);
  TASSIGN(v20, static_cast<int64_t>(4096));
  GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND> v21(v1);
  TLOAD(v20, v21);
  {_pair("PIPE_MTE2", "PIPE_V")}
  TMULS(v20, v20, 2.0f);
  {_pair("PIPE_V", "PIPE_MTE3")}
  TSTORE(v21, v20);
  pipe_barrier(PIPE_ALL);
"""
_SLOT = "slots + (v5 % 2) * 256"

#: Between the ranks of a distributed program.
OF_RANKS = (
    Bug(
        "sum that does not wait for its load", _ALLREDUCE,
        ((_SUM, "    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\n", ""), (_SUM, "    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\n", "")),
        "check/unordered-pipes", _SUM, "TADD(", "on ranks 0, 1", True,
    ),
    Bug(
        "all-reduce that tells of its part before it is visible", _ALLREDUCE, ((_SUM, _TOLD, _STAGED + _TOLD),),
        "memory/unfenced-notify", _SUM, "TSTORE(v21, v20);",
        "'sum_ranks' TSTORE stores comm_d0.partial_buf+0..1023 of rank 1 and notifies before the store is visible", True,
    ),
    Bug(
        "row for the next rank without a fence", _PIPELINE, ((_SEND, _DRAINED, "    pipe_barrier(PIPE_ALL);\n"),),
        "memory/unfenced-notify", _SEND, "TSTORE(v8, v4);", "TLOAD reads it after the wait", True,
    ),
    Bug(
        "fence before the pipe is done", _PIPELINE,
        ((_SEND, _DRAINED, "    dsb(DSB_DDR);\n    pipe_barrier(PIPE_ALL);\n"),),
        "memory/unfenced-notify", _SEND, "TSTORE(v8, v4);", "its pipe may still be busy, or no dsb waits for it", True,
    ),
    Bug(
        "part that is put without a fence", _EXCHANGE, ((_PUT, _DRAINED, "    pipe_barrier(PIPE_ALL);\n"),),
        "memory/unfenced-notify", _PUT, "comm::TPUT(v8, v7, v3);", "TPUT stores comm_d0.inbox_buf", True,
    ),
    Bug(
        "row that the scalar unit sends", _PIPELINE,
        ((
            _SEND, f"    TSTORE(v8, v4);\n{_DRAINED}",
            "    for (int64_t i = 0; i < 256; ++i) v8.data()[i] = 2.0f * x[v5 * 256 + i];\n    dsb(DSB_DDR);\n",
        ),),
        "memory/unfenced-notify", _SEND, "v8.data()[i] = 2.0f", "it stays in the core's data cache", True,
    ),
    Bug(
        "slot whose line is still that of the row before", _PIPELINE,
        ((_RECEIVE, "    TLOAD(v3, v7);\n", f"    if (({_SLOT})[0] > 1e30f) pipe_barrier(PIPE_V);\n    TLOAD(v3, v7);\n"),),
        "memory/stale-read", _RECEIVE, f"if (({_SLOT})[0] > 1e30f)",
        "returns the value from before rank 0 d0 'stage_one' kernel 'scale_and_send' TSTORE", True,
    ),
)  # fmt: skip
