"""Markers of visibility that are missing in real kernels: what MEMORY=weak names."""

from __future__ import annotations

from tests.diagnose.corpus.real import Recipe, Substitution

_SOFTMAX, _SOFTMAX_FILE = "e_02_softmax-_jit_tile_softmax", "kernels/aiv/tile_softmax_incore_0.cpp"
_MATMUL, _MATMUL_FILE = "e_05_matmul-_jit_matmul_64", "kernels/aic/matmul_64_incore_0.cpp"
_DAG = "e_02_vector_dag-_jit_vector_dag"
_MUL_FILE, _ADD_FILE = "kernels/aiv/kernel_mul_128.cpp", "kernels/aiv/kernel_add_128.cpp"
_SCALE, _SCALE_FILE = "e_03_scalar_ops-_jit_fused_add_scale", "kernels/aiv/fused_add_scale_incore_0.cpp"
_STORE = "d05s-_jit_ring_shift_store"
_STORE_FILE = "next_levels/per_rank_store/kernels/aiv/shift_by_store.cpp"
_PUT, _PUT_FILE = "d06-_jit_ring_put", "next_levels/per_rank_put/kernels/aiv/put_step.cpp"
_REDUCE = "st_allreduce_test_allreduce_2_-AllReduceMesh"
_REDUCE_FILE = "next_levels/chip_orch/kernels/aiv/reduce_step.cpp"
_SIGNAL = "st_notify_wait_test_signal_exchange-SignalHandshake"
_SIGNAL_FILE = "next_levels/chip_orch/kernels/aiv/barrier_step.cpp"
_TAIL = r"^  ptoas_auto_sync_tail\(.*\n"
_LAST_STORE = r"(  TSTORE\(v22, v18\);\n)"
_BACK = (
    r"\1  set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);\n  wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);\n  TLOAD(v8, v22);\n"
    r"  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);\n  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);\n  TADDS(v18, v8, 1.0f);\n"
    r"  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);\n  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);\n  TSTORE(v22, v18);\n"
)
_DAG_FILE = "orchestration/vector_dag.cpp"
_INOUT = (_DAG_FILE, r"add_output\(g\)", "add_inout(g)")
_CLEAN = "dcci((__gm__ void*)0, ENTIRE_DATA_CACHE, CACHELINE_OUT); dsb(DSB_DDR);"


def _weak(name: str, artifact: str, rule: str, file: str, at: str, says: str, *edits: Substitution) -> Recipe:
    return Recipe(name, artifact, edits, f"memory/{rule}", file, at, says, options=("MEMORY=weak",))


RECIPES = (
    _weak("kernel that returns before its store is over", _SOFTMAX, "unfinished-store", _SOFTMAX_FILE, r"TSTORE\(", "may still be under way", (_SOFTMAX_FILE, _TAIL, "")),
    _weak("cube kernel that returns before its store is over", _MATMUL, "unfinished-store", _MATMUL_FILE, r"TSTORE\(", "TSTORE on PIPE_FIX stores", (_MATMUL_FILE, _TAIL, "")),
    _weak("kernel that ends with the barrier of another pipe", _DAG, "unfinished-store", _MUL_FILE, r"TSTORE\(", "TSTORE on PIPE_MTE3", (_MUL_FILE, _TAIL, "  pipe_barrier(PIPE_V);\n")),
    _weak("store that is loaded again behind flags", _DAG, "stale-load", _MUL_FILE, r"TLOAD\(v8, v22\)", "no dsb after the store is over", (_MUL_FILE, _LAST_STORE, _BACK), _INOUT),
    _weak("row's end that stays in the data cache", _SOFTMAX, "unclean-store", _SOFTMAX_FILE, r"v2\[63\] = ", "", (_SOFTMAX_FILE, r"(  TSTORE\(.*\n)", r"\1  pipe_barrier(PIPE_ALL); dsb(DSB_DDR);\n  v2[63] = 0.0f;\n")),
    _weak("pipe that loads what the scalar unit has stored", _SCALE, "unclean-load", _SCALE_FILE, r"TLOAD\(v9, v13\)", "", (_SCALE_FILE, r"^(  TLOAD\(v9, v13\);\n)", r"  v1[5] = 1.0f;\n\1"), (_SCALE_FILE, r"^(  ptoas_auto_sync_tail\(.*\n)", rf"  {_CLEAN}\n\1"), ("orchestration/fused_add_scale.cpp", r"add_input\(ext_a\)", "add_inout(ext_a)")),
    _weak("scalar that is read behind a store's flag", _DAG, "stale-read", _MUL_FILE, r"if \(v3\[0\]", "", (_MUL_FILE, _LAST_STORE, r"\1  set_flag(PIPE_MTE3, PIPE_S, EVENT_ID1);\n  wait_flag(PIPE_MTE3, PIPE_S, EVENT_ID1);\n  if (v3[0] > 1e30f) pipe_barrier(PIPE_V);\n"), _INOUT),
    _weak("scalar into the line of a store that is under way", _DAG, "lost-store", _MUL_FILE, r"v3\[1\] = ", "", (_MUL_FILE, _LAST_STORE, rf"\1  v3[1] = 0.0f;\n  pipe_barrier(PIPE_ALL); {_CLEAN}\n")),
    _weak("mesh that tells of its part before it is visible", _REDUCE, "unfenced-notify", _REDUCE_FILE, r"TSTORE\(v29", "notifies before the store is visible", (_REDUCE_FILE, r"^  dsb\(DSB_DDR\);\n", ""), (_REDUCE_FILE, r"^      pipe_barrier\(PIPE_MTE3\);\n      dsb\(DSB_DDR\);\n", "")),
    _weak("row stored at the next rank without a fence", _STORE, "unfenced-notify", _STORE_FILE, r"TSTORE\(v32", "", (_STORE_FILE, r"^  dsb\(DSB_DDR\);\n", ""), (_STORE_FILE, r"^      dsb\(DSB_DDR\);\n(      pto::comm::TNOTIFY\(v46)", r"\1"), (_STORE_FILE, r"^      dsb\(DSB_DDR\);\n(      pto::comm::TNOTIFY\(v62)", r"\1")),
    # The compiler's own dsb comes before anything has waited for the store (docs/dev/memory.md): that is mended first.
    _weak("row put at the next rank without a fence", _PUT, "unfenced-notify", _PUT_FILE, r"TPUT\(", "TPUT stores", (_PUT_FILE, r"(TPUT\(.*\n *set_flag.*\n *pipe_barrier.*\n *dcci.*\n) *dsb\(DSB_DDR\);\n", r"\1"), (_PUT_FILE, r"(TSTORE\(v26.*\n.*\n)", r"\1  pipe_barrier(PIPE_MTE3);\n")),
    _weak("signal copied out and left in the data cache", _SIGNAL, "unclean-store", _SIGNAL_FILE, r"v1\[v9\] = v24;", "", (_SIGNAL_FILE, r"^  dcci\(.*CACHELINE_OUT\);\n  dsb\(.*\n", "")),
    _weak("copy of a signal that was cleaned and not waited for", _SIGNAL, "unclean-store", _SIGNAL_FILE, r"v1\[v9\] = v24;", "", (_SIGNAL_FILE, r"^  pipe_barrier\(PIPE_ALL\);\n  dcci\(.*CACHELINE_OUT\);\n  dsb\(.*\n", ""), (_SIGNAL_FILE, r"^(  v1\[v9\] = v24;\n)", r"  dcci((__gm__ void*)0, ENTIRE_DATA_CACHE, CACHELINE_OUT); dsb((mem_dsb_t)0);\n\1")),
)  # fmt: skip
