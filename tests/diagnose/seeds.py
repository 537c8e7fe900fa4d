"""Bugs planted in the artifact of seeded_program.py, and where `diverge` has to find each."""

from __future__ import annotations

from dataclasses import dataclass

KERNEL, MODULE, ORCHESTRATION = "diverge/kernel", "diverge/module", "diverge/orchestration"
SCALE, PRODUCT, FINISH = "kernels/aiv/scale.cpp", "kernels/aic/product.cpp", "kernels/aiv/finish.cpp"
ACTIVATE, ORCHESTRATED = "kernels/aiv/activate_aiv.cpp", "orchestration/seeded.cpp"


@dataclass(frozen=True)
class Seed:
    """`old` becomes `new` in `file`. Found by `rule` in task `task` of `kernel` at the line of the file that has `at`;
    `operation` is that of the module's line, `says` a part of the report."""

    name: str
    file: str
    old: str
    new: str
    task: int
    kernel: str
    at: str
    operation: str = ""
    says: str = ""
    rule: str = KERNEL


SEEDS = (
    Seed(
        "wrong offset", SCALE, "(arg1 + row__ssa_v0 * 128,", "(arg1 + row__ssa_v0 * 64,",
        0, "scale", "TSTORE(", "pto.tstore", "at byte 4096 of the tensor's buffer, the module at 8192",
    ),
    Seed(
        "dropped accumulate", PRODUCT, "TMATMUL_ACC(acc__ssa_v3, acc__iter_v1, ", "TMATMUL(acc__ssa_v3, ",
        1, "product", "TMATMUL(acc__ssa_v3", "pto.tmatmul.acc", "executes TMATMUL, but the module has pto.tmatmul",
    ),
    Seed(
        "wrong rounding", FINISH, "RoundMode::CAST_FLOOR", "RoundMode::CAST_RINT",
        4, "finish", "TCVT(", "pto.tcvt", "it writes other values",
    ),
    Seed(
        "swapped operands", ACTIVATE, "tmp4__ssa_v0, mixed__ssa_v0__Vec)", "mixed__ssa_v0__Vec, tmp4__ssa_v0)",
        2, "activate_aiv", "TSUB(", "pto.tsub", "it writes other values",
    ),
    Seed(
        "stale tile address", FINISH, "TASSIGN(tmp0__ssa_v0, 16384)", "TASSIGN(tmp0__ssa_v0, 8192)",
        4, "finish", "TROWSUM(", "pto.trowsum", "its tile lies at byte 8192 of vec, in the module at 16384",
    ),
    Seed(
        "off-by-one loop", PRODUCT, "k__idx_v0 < 128", "k__idx_v0 < 96",
        1, "product", "TSTORE(", "pto.tload", "executes TSTORE next and leaves out pto.tload (TLOAD); the loop of line",
    ),
    Seed(
        "lost tail", FINISH, "part__ssa_v0(32, arg3)", "part__ssa_v0(32, arg3 / 16 * 16)",
        4, "finish", "TLOAD(", "pto.tload", "it writes 32 x 32 elements, the module 32 x 40",
    ),
    Seed(
        "missing cast", ACTIVATE, "TCVT(tmp1__ssa_v0, x__ssa_v0, RoundMode::CAST_RINT, SaturationMode::OFF);", "",
        2, "activate_aiv", "TPUSH<decltype(pipe0), decltype(tmp1", "pto.tcvt", "executes TPUSH next and leaves out",
    ),
    Seed(
        "wrong split", ACTIVATE, "decltype(mixed__ssa_v0__Vec), TileSplitAxis::TILE_NO_SPLIT>",
        "decltype(mixed__ssa_v0__Vec), TileSplitAxis::TILE_LEFT_RIGHT>",
        2, "activate_aiv", "TPOP<decltype(pipe0), decltype(mixed", "pto.tpop_from_aic", "it writes other values",
    ),
    Seed(
        "wrong block index", SCALE, "row__ssa_v0 = tmp1__ssa_v0 * share", "row__ssa_v0 = (3 - tmp1__ssa_v0) * share",
        0, "scale", "TLOAD(", "pto.tload", "it writes other values",
    ),
    Seed(
        "wrong constant", FINISH, "const float cst = 1.5f", "const float cst = 1.25f",
        4, "finish", "TADDS(", "pto.tadds", "2048 of 2048 elements",
    ),
    Seed(
        "ignored scalar", ACTIVATE, "TMULS(x__ssa_v0, tmp0__ssa_v0, arg5)", "TMULS(x__ssa_v0, tmp0__ssa_v0, 0.25f)",
        2, "activate_aiv", "TMULS(", "pto.tmuls", "it writes other values",
    ),
    Seed(
        "wrong view", ORCHESTRATED, "tmp0_offsets[2] = {static_cast<uint32_t>(row), 0}",
        "tmp0_offsets[2] = {static_cast<uint32_t>(32 - row), 0}",
        4, "", "// Task 3: finish", says="gives d a view that starts 2048 elements into its tensor", rule=ORCHESTRATION,
    ),
    Seed(
        "wrong scalar", ORCHESTRATED, "add_scalar((uint64_t)40)", "add_scalar((uint64_t)48)",
        4, "", "// Task 3: finish", says="passes length = 48; in the program it is 40", rule=ORCHESTRATION,
    ),
    Seed(
        "wrong factor", ORCHESTRATED, "to_u64(0.125f)", "to_u64(0.5f)",
        2, "", "// Group activate", says="passes factor = 0.5; in the program it is 0.125", rule=ORCHESTRATION,
    ),
    Seed(
        "too few blocks", ORCHESTRATED, "set_block_num(4)", "set_block_num(2)",
        0, "", "// Spmd scale", says="runs on 2 blocks; in the program on 4", rule=ORCHESTRATION,
    ),
    Seed(
        "wrong module", "ptoas/scale.pto", "pto.trowmax", "pto.trowmin",
        0, "scale", "pto.trowmin", says="module computes something else than the program's scale", rule=MODULE,
    ),
    Seed(
        "wrong module, rounding", "ptoas/finish.pto", "round_mode FLOOR", "round_mode CEIL",
        4, "finish", "round_mode CEIL", says="module computes something else than the program's finish", rule=MODULE,
    ),
)  # fmt: skip
