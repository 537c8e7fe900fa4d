"""Waits that nobody ends, in real kernels, their orchestrations, and between ranks."""

from __future__ import annotations

from tests.diagnose.corpus.real import Recipe, Substitution

_CHUNKED, _CHUNKED_FILE = "e_02_elementwise-_jit_chunked_add", "kernels/aiv/chunked_add_incore_0.cpp"
_EDGE, _EDGE_FILE = "e_07_task_graph-_jit_declared_edge", "orchestration/declared_edge.cpp"
_MIXED = "e_03_mixed_kernel-_jit_mixed_matmul_bias"
_CUBE_FILE, _LANE_FILE = "kernels/aic/mixed_up_down_aic.cpp", "kernels/aiv/mixed_up_down_aiv.cpp"
_SIGNAL = "st_notify_wait_test_signal_exchange-SignalHandshake"
_SIGNAL_FILE = "next_levels/chip_orch/kernels/aiv/barrier_step.cpp"
_BARRIER = "d04r-_jit_barrier_program_hand"
_BARRIER_FILE = "next_levels/per_rank_hand/kernels/aiv/barrier_handrolled.cpp"
_CREDIT = "st_self_notify_credit_reset_test_self_notify_credit_reset-SelfNotifyCreditReset"
_CREDIT_FILE = "next_levels/chip_orch/kernels/aiv/credit_and_reset.cpp"
_PUT, _PUT_FILE = "d06-_jit_ring_put", "next_levels/per_rank_put/kernels/aiv/put_step.cpp"
_SPLIT, _SPLIT_FILE = "e_01_split_k-_jit_matmul_split_k", "orchestration/matmul_split_k.cpp"


def _wait(
    name: str, artifact: str, edit: Substitution, at: str, says: str, file: str = "", rule: str = "hang"
) -> Recipe:
    return Recipe(name, artifact, (edit,), f"hazards/{rule}", file or edit[0], at, says, options=("TIMEOUT=20",))


RECIPES = (
    _wait("loop whose step is missing", _CHUNKED, (_CHUNKED_FILE, r"v9 \+= \(size_t\) v5", "v9 += 0"), r"for \(size_t v9", "had not finished at the time limit"),
    _wait("dependency on a task that is never submitted", _EDGE, (_EDGE_FILE, r"\+\+\] = first;", "++] = PTO2TaskId::make(1, 7);"), r"rt_submit_aiv_task\(1", "which was never submitted"),
    _wait("cube kernel that pushes nothing", _MIXED, (_CUBE_FILE, r"^  TPUSH<.*\n", ""), r"TPOP<", "", _LANE_FILE),
    _wait("signal that is waited for twice and sent once", _SIGNAL, (_SIGNAL_FILE, r"const int32_t v8 = 1;", "const int32_t v8 = 3;"), r"TWAIT\(", ">= 3, it is"),
    _wait("signal that is never sent", _SIGNAL, (_SIGNAL_FILE, r"^  pto::comm::TNOTIFY\(.*\n", ""), r"TWAIT\(", "it is 0"),
    _wait("every rank notifies itself only", _BARRIER, (_BARRIER_FILE, r"if \(v17 != v18\)", "if (v17 == v18)"), r"TWAIT\(", "it is 0"),
    _wait("comparison with more than is ever sent", _BARRIER, (_BARRIER_FILE, r"WaitCmp::GE", "WaitCmp::GT"), r"TWAIT\(", "it is 1"),
    _wait("one credit more than is given", _CREDIT, (_CREDIT_FILE, r"const int32_t v9 = 4;", "const int32_t v9 = 5;"), r"TWAIT\(", ">= 5, it is 4"),
    _wait("one of four credits left out", _CREDIT, (_CREDIT_FILE, r"^  pto::comm::TNOTIFY\(v31.*\n", ""), r"TWAIT\(", ">= 4, it is 3"),
    _wait("notification of nothing", _PUT, (_PUT_FILE, r"TNOTIFY\(v47, v11,", "TNOTIFY(v47, 0,"), r"TWAIT\(", ">= 1, it is 0"),
)  # fmt: skip
