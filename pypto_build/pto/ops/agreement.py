"""Questions on which the device, upstream's simulator and the embedded runtime may differ, a row each.

`docs/lookup/agreement.md` is printed from the rows. The kit of `pypto-build conformance` has inputs for the questions
that a device can answer, under the same names. An instruction without a row is not known to differ.

The simulator's answers come from the revision of pto-isa in third_party/pins.toml; those of newer ones are in words.
The device's answers come from public pages and threads, or from the instructions that the headers issue for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

#: agreed: all three give the same. differs: what the device does is known, and one of the others does something else.
#: open: the device's answer is not published.
State = Literal["agreed", "differs", "open"]

_THREADS = "https://github.com/hw-native-sys"
_ISA = "https://github.com/hw-native-sys/pto-isa/blob/main"
_ASCEND = "https://www.hiascend.com/document/detail/en/canncommercial/800/apiref/ascendcopapi"

#: Sources of claims: name and address.
SOURCES: dict[str, tuple[str, str]] = {
    "I259": ("pto-isa #259", f"{_THREADS}/pto-isa/issues/259"),
    "I280": ("pto-isa #280", f"{_THREADS}/pto-isa/issues/280"),
    "I304": ("pto-isa #304", f"{_THREADS}/pto-isa/issues/304"),
    "I318": ("pto-isa #318", f"{_THREADS}/pto-isa/issues/318"),
    "P2082": ("pypto #2082", f"{_THREADS}/pypto/issues/2082"),
    "P2470": ("pypto #2470", f"{_THREADS}/pypto/issues/2470"),
    "P537": ("pypto #537", f"{_THREADS}/pypto/pull/537"),
    "S2215": ("simpler #2215", f"{_THREADS}/simpler/issues/2215"),
    "S2350": ("simpler #2350", f"{_THREADS}/simpler/issues/2350"),
    "matmul": ("pto-isa npu/a2a3/TMatmul.hpp", f"{_ISA}/include/pto/npu/a2a3/TMatmul.hpp"),
    "row_reduce": ("pto-isa npu/a2a3/TRowReduceOps.hpp", f"{_ISA}/include/pto/npu/a2a3/TRowReduceOps.hpp"),
    "row_sum": ("pto-isa npu/a2a3/TRowSum.hpp", f"{_ISA}/include/pto/npu/a2a3/TRowSum.hpp"),
    "a5_reduce": ("pto-isa npu/a5/TRowReduce.hpp", f"{_ISA}/include/pto/npu/a5/TRowReduce.hpp"),
    "col_sum": ("pto-isa npu/a2a3/TColSum.hpp", f"{_ISA}/include/pto/npu/a2a3/TColSum.hpp"),
    "cvt": ("pto-isa npu/a2a3/TCvt.hpp", f"{_ISA}/include/pto/npu/a2a3/TCvt.hpp"),
    "cvt_page": ("pto-isa docs/isa/TCVT.md", f"{_ISA}/docs/isa/TCVT.md"),
    "cmp": ("pto-isa npu/a2a3/TCmp.hpp", f"{_ISA}/include/pto/npu/a2a3/TCmp.hpp"),
    "cmps": ("pto-isa npu/a2a3/TCmps.hpp", f"{_ISA}/include/pto/npu/a2a3/TCmps.hpp"),
    "sel": ("pto-isa npu/a2a3/TSel.hpp", f"{_ISA}/include/pto/npu/a2a3/TSel.hpp"),
    "quant": ("pto-isa npu/a2a3/TQuant.hpp", f"{_ISA}/include/pto/npu/a2a3/TQuant.hpp"),
    "max": ("pto-isa npu/a2a3/TMax.hpp", f"{_ISA}/include/pto/npu/a2a3/TMax.hpp"),
    "unary": ("pto-isa npu/a2a3/TUnaryOp.hpp", f"{_ISA}/include/pto/npu/a2a3/TUnaryOp.hpp"),
    "recip": ("pto-isa docs/isa/TRECIP.md", f"{_ISA}/docs/isa/TRECIP.md"),
    "divs": ("pto-isa npu/a2a3/TDivS.hpp", f"{_ISA}/include/pto/npu/a2a3/TDivS.hpp"),
    "bitwise": ("pto-isa npu/a2a3/TBitwiseSOp.hpp", f"{_ISA}/include/pto/npu/a2a3/TBitwiseSOp.hpp"),
    "xor": ("pto-isa npu/a2a3/TXor.hpp", f"{_ISA}/include/pto/npu/a2a3/TXor.hpp"),
    "prelu": ("pto-isa npu/a2a3/TPrelu.hpp", f"{_ISA}/include/pto/npu/a2a3/TPrelu.hpp"),
    "store": (
        "pto-isa common/arch/memory/tstore_common.hpp",
        f"{_ISA}/include/pto/common/arch/memory/tstore_common.hpp",
    ),
    "exp_page": ("pto-isa docs/isa/TEXP.md", f"{_ISA}/docs/isa/TEXP.md"),
    "cast": ("Ascend C, Cast", f"{_ASCEND}/atlasascendc_api_07_0072.html"),
    "reduce_sum": ("Ascend C, ReduceSum", f"{_ASCEND}/atlasascendc_api_07_0078.html"),
    "types": ("pto-isa docs/isa/state-and-types/type-system.md", f"{_ISA}/docs/isa/state-and-types/type-system.md"),
    "format": ("pto-isa docs/isa/state-and-types/data-format.md", f"{_ISA}/docs/isa/state-and-types/data-format.md"),
    "valid": (
        "pto-isa docs/isa/programming-model/tiles-and-valid-regions.md",
        f"{_ISA}/docs/isa/programming-model/tiles-and-valid-regions.md",
    ),
    "gather": ("pto-isa docs/isa/TGATHER.md", f"{_ISA}/docs/isa/TGATHER.md"),
    "mad": ("pto-isa docs/isa/cube/ops/mad/mad.md", f"{_ISA}/docs/isa/cube/ops/mad/mad.md"),
    "vmax": ("pto-isa docs/isa/vector, vmax", f"{_ISA}/docs/isa/vector/ops/binary-vector-ops/vmax.md"),
    "vcadd": ("pto-isa docs/isa/vector, vcadd", f"{_ISA}/docs/isa/vector/ops/reduction-ops/vcadd.md"),
    "hf32": (
        "Ascend C, SetHF32Mode",
        "https://www.hiascend.com/document/detail/en/canncommercial/850/API/ascendcopapi/atlasascendc_api_07_0258.html",
    ),
}


@dataclass(frozen=True)
class Agreement:
    """One question, its `instructions`, and the answers of the three.

    `device_by` and `simulator_by` are the NUMERICS= that give the two answers, `fast` (as it is) before the others;
    empty without a setting or an answer. `kit` says that the kit has inputs which tell the answers apart. The answers
    to a question with `only_broken` differ only where a kernel breaks a rule (docs/lookup/device-rules.md).
    """

    name: str
    question: str
    instructions: str
    state: State
    device: str
    simulator: str
    here: str
    sources: str = ""
    device_by: str = ""
    simulator_by: str = ""
    kit: bool = True
    only_broken: bool = False

    def names(self) -> tuple[str, ...]:
        """Return the instructions of the question."""
        return tuple(self.instructions.split())


AGREEMENTS: dict[str, Agreement] = {
    row.name: row
    for row in (
        # --- matrix products
        Agreement(
            "accumulate_from_c", "What a product that accumulates begins with", "TMATMUL_ACC TGEMV_ACC", "differs",
            "C is the first value of a sequence of fused products and sums, so each step is rounded at the size of C: "
            "2^24 and 64 products of 1 give 2^24.",
            "Sums from zero and adds C at the end: 2^24 + 64. Since the revision of 2 September 2026 as the device.",
            "As the device.", "I280 matmul",
            device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "accumulator_named", "Which C is read where the result goes elsewhere", "TMATMUL_ACC TGEMV_ACC", "differs",
            "The accumulator that is written, whatever is named as C.", "The one that is named.", "As the simulator.",
            "P537 matmul",
            device_by="device", simulator_by="fast", kit=False,
        ),
        Agreement(
            "bias_first", "When a bias is added", "TMATMUL_BIAS TGEMV_BIAS", "differs",
            "The bias buffer is what the accumulator begins with.", "Added to the finished product.",
            "As the device.", "matmul",
            device_by="fast", simulator_by="simulator", kit=False,
        ),
        Agreement(
            "product_order", "How the products of halves are summed along k",
            "TMATMUL TMATMUL_ACC TMATMUL_BIAS TGEMV TGEMV_ACC TGEMV_BIAS", "open",
            "A sequence of fused steps by the only report; how the 16 products that the cube takes at a time are "
            "combined is not said.",
            "One product after the other, each fused and rounded.", "As the simulator.", "I280",
            simulator_by="fast",
        ),
        Agreement(
            "float_products", "How precise products of float are", "TMATMUL TGEMV", "open",
            "Operands are rounded to HF32 (10 bits after the point) if that mode is set, and kept else; the sum is "
            "float.",
            "All bits, one fused step after the other.", "As the simulator.", "hf32 mad I280",
            simulator_by="fast",
        ),
        # --- sums
        Agreement(
            "row_sum_order", "The order in which a row of float is summed", "TROWSUM", "differs",
            "a2a3: pieces of 64 are added in pairs, then the 64 sums as a binary tree of neighbours (four shapes, such "
            "as 64x128, begin with trees of 8). a5: a tree within each vector, vectors one after the other.",
            "From left to right where g++ compiles it, as simpler has it; clang makes eight sums side by side of it. "
            "Newer revisions follow a5 where they are told of it, which simpler did not do.",
            "Four vectors of eight sums side by side, combined at the end, since a tree of neighbours takes several "
            "times as long. All are within the rounding of the sum. NUMERICS=device has the order of the platform, "
            "but for those four shapes.",
            "row_reduce row_sum reduce_sum vcadd a5_reduce I304 S2215",
            device_by="device", simulator_by="simulator",
        ),
        Agreement(
            "row_sum_half", "How a row of half is summed", "TROWSUM", "differs",
            "In half: each sum of two is rounded, and what would be infinite is 65504.",
            "In float, rounded once.", "As the simulator.", "reduce_sum row_sum",
            device_by="device", simulator_by="fast",
        ),
        Agreement(
            "col_sum_half", "How a column of half is summed", "TCOLSUM", "differs",
            "Row after row in half, each sum rounded; with a scratch tile pairs of rows are added first.",
            "Row after row, each sum rounded.", "In float, rounded once: less error than the device has.",
            "col_sum",
            device_by="device", simulator_by="simulator",
        ),
        Agreement(
            "products_of_rows", "How a row is multiplied", "TROWPROD", "differs",
            "Lanes of a block side by side, their products at the end.", "From left to right, each rounded.",
            "As in `row_sum_order`; half in float, rounded once.", "row_sum",
            device_by="device", simulator_by="simulator", kit=False,
        ),
        Agreement(
            "empty_reduction", "What a reduction over no elements gives",
            "TROWSUM TROWMAX TROWMIN TROWPROD TCOLSUM TCOLMAX TCOLMIN TCOLPROD", "open",
            "The headers refuse it where assertions are on; what the instruction does is not said.",
            "0 for a sum, 1 for a product, the first element for a max or min.", "The destination stays as it was.",
            "row_reduce",
            simulator_by="simulator", kit=False,
        ),
        # --- conversions
        Agreement(
            "round_to_half", "Whether float to half follows the rounding mode", "TCVT", "differs",
            "Each mode is an instruction of its own; NONE is to nearest even, ODD is von Neumann's rounding.",
            "To nearest even whatever the mode. A build without the compiler's own half lost a carry into the "
            "exponent: just below a power of two it gave half of it.",
            "As the device.", "cvt cast S2350",
            device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "round_to_bfloat16", "Whether float to bfloat16 follows the rounding mode", "TCVT", "differs",
            "Each mode is an instruction of its own.", "To nearest even whatever the mode.", "As the device.",
            "cvt cast",
            device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "round_to_whole", "What float to float does", "TCVT", "differs",
            "Rounds to a whole number.", "Copies.", "As the device.", "cvt cvt_page",
            device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "round_words", "Whether int32 to float follows the rounding mode", "TCVT", "differs",
            "Each mode is an instruction of its own.", "To nearest even whatever the mode.", "As the device.",
            "cvt",
            device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "nan_to_integer", "What NaN, infinities and what is too large become as int32", "TCVT", "open",
            "Undefined, by its page.", "The C++ cast of a double, which is undefined there: on x86 the lowest number.",
            "0 for NaN, else the nearest end of the range.", "types cast",
        ),
        Agreement(
            "narrow_integers", "What is too large for int16 or int8", "TCVT", "differs",
            "With SaturationMode OFF the low bits, with ON the nearest end; a default of its own for each pair of "
            "types where none is given.",
            "OFF is the C++ cast, and the default for all.", "The low bits and the nearest end; OFF is the default.",
            "cvt_page cvt",
            kit=False,
        ),
        Agreement(
            "float8", "Rounding of float to float8", "TCVT", "differs", "To nearest even with RINT (a5).",
            "Cut off, until September 2026.", "As the device.", "I318",
            device_by="fast", kit=False,
        ),
        # --- elements
        Agreement(
            "max_with_nan", "What the max of a number and NaN is",
            "TMAX TMIN TMAXS TMINS TROWEXPANDMAX TROWEXPANDMIN TCOLEXPANDMAX TCOLEXPANDMIN TPARTMAX TPARTMIN",
            "differs", "NaN where either is.",
            "NaN where the first operand is; a NaN that comes second is passed over.", "As the device.",
            "vmax max", device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "row_max_with_nan", "What the max of a row with NaN is", "TROWMAX TROWMIN TCOLMAX TCOLMIN", "open",
            "Not said.", "NaN where it comes first; else it is passed over.", "NaN.", "row_reduce",
            simulator_by="simulator",
        ),
        Agreement(
            "relu_of_zero", "The sign of relu(-0), and relu of NaN", "TRELU", "open", "Not said.", "-0; NaN.",
            "0; NaN.", "unary",
            simulator_by="simulator",
        ),
        Agreement(
            "exponential", "The last bits of exp", "TEXP TROWEXPANDEXPDIF TCOLEXPANDEXPDIF", "open",
            "By an instruction whose error is not said; a5 has a slower algorithm of higher precision.",
            "In double, rounded once.", "Within one unit in the last place.", "exp_page unary",
            simulator_by="simulator",
        ),
        Agreement(
            "logarithm", "The last bits of log", "TLOG", "open", "By an instruction whose error is not said.",
            "In double, rounded once.", "Within one unit in the last place.", "unary",
            simulator_by="simulator",
        ),
        Agreement(
            "inverse_root", "The last bits of 1 / sqrt", "TRSQRT", "open",
            "By an instruction of its own, or as a root and a division where there is a scratch tile; errors are not "
            "said.",
            "In double, rounded once.", "A root and a division, each rounded.", "unary",
            simulator_by="simulator",
        ),
        Agreement(
            "quotient", "Whether quotients are rounded correctly", "TDIV TDIVS TRECIP TROWEXPANDDIV TCOLEXPANDDIV",
            "open", "Not said.", "The processor's division: correctly rounded.", "As the simulator.", "unary",
            simulator_by="fast",
        ),
        Agreement(
            "root", "Whether square roots are rounded correctly", "TSQRT", "open", "Not said.",
            "In double, rounded once: correctly rounded.", "As the simulator.", "unary",
            simulator_by="fast",
        ),
        Agreement(
            "subnormal", "Whether float numbers below 2^-126 are kept", "TMULS TMUL TADD TSUB TDIV", "differs",
            "Zeros take their place, as operands and as results (a5 has a mode that keeps them).", "Kept.",
            "Kept, as goldens computed with PyTorch have them.", "types",
            device_by="device", simulator_by="fast",
        ),
        Agreement(
            "fused_sums", "Whether a product and a sum are rounded once",
            "TAXPY TFUSEDMULADD TFUSEDMULADDRELU TMULADDDST", "open", "Not said.",
            "Twice; half is rounded in between.", "Float once; half twice, as the product is rounded first.", "",
            kit=False,
        ),
        Agreement(
            "divide_by_zero", "Integer division by zero", "TDIV TDIVS TREM TREMS TFMOD TFMODS TRECIP", "open",
            "Not said.", "Ends the process.", "Quotients have all bits set; remainders are the dividend.", "",
            kit=False,
        ),
        Agreement(
            "shift_beyond", "Shifts by the width or more", "TSHL TSHR TSHLS TSHRS", "open", "Not said.",
            "Undefined in C++: on x86 by the remainder.", "Zeros, or copies of the sign.", "",
            kit=False,
        ),
        # --- masks
        Agreement(
            "compare_words", "Whether int32 can be compared for order", "TCMP TCMPS", "differs",
            "a2a3 has no such instruction: whatever the mode, numbers are compared for equality.",
            "By the mode.", "As the device: equality on a2a3, the mode on a5.", "cmp cmps",
            device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "compare_near", "Whether two numbers that are close are equal to TCMPS", "TCMPS", "differs",
            "Only what is equal.", "What is less than 10^-9 apart; infinity is not equal to itself.", "As the device.",
            "cmps",
            device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "mask_rows", "Where the mask of a row begins", "TSEL", "differs",
            "At a row of the mask tile, of its whole width.",
            "Bits go on through the valid part of the mask, whatever the row.", "As the device.", "sel",
            device_by="fast", simulator_by="simulator",
        ),
        Agreement(
            "packed_rows", "Where TCMPS writes the mask of a row", "TCMPS", "differs", "At a row of the mask tile.",
            "Rows of an eighth of the source's width, end to end through the valid part of the mask.",
            "As the device.", "cmps",
            device_by="fast", kit=False,
        ),
        Agreement(
            "mask_rest", "Bits of a mask beyond the valid columns", "TCMP TCMPS", "differs",
            "Those of the whole vectors that were compared: of whatever lies there.",
            "The whole mask is zero before.", "Within the last byte zero, beyond it as they were.", "cmp",
            simulator_by="simulator", kit=False,
        ),
        # --- regions and moves
        Agreement(
            "outside_valid", "What an operand has outside its own valid region, where the result has elements",
            "TADD TSUB TMUL TDIV TMAX TMIN TSEL", "agreed", "Not defined: whatever lies there.", "What lies there.",
            "What lies there.", "valid", device_by="fast", simulator_by="fast", kit=False,
        ),
        Agreement(
            "unpadded_rest", "What lies beside the valid region of a tile that was loaded without a pad value",
            "TLOAD", "differs", "Not defined, must not be read.", "Zero.", "What was there before.", "format I259",
            kit=False,
        ),
        Agreement(
            "gather_beyond", "What an index beyond the tile gathers", "TGATHER", "differs",
            "Whatever lies at that address of the memory.", "Zero.",
            "What lies there; zero beyond the memory.", "gather",
            device_by="fast", kit=False,
        ),
        Agreement(
            "atomic_order", "The order of atomic sums", "TSTORE TPUT", "agreed",
            "That in which they arrive.", "The same.", "The same; SERIAL=1 makes it that of submission.", "",
            device_by="fast", simulator_by="fast", kit=False,
        ),
        Agreement(
            "quantize_ties", "Rounding and range of quantization to int8", "TQUANT", "agreed",
            "To nearest even by way of int32 and half, saturated.", "The same numbers.", "The same numbers.", "quant",
            device_by="fast", simulator_by="fast", kit=False,
        ),
        # --- kernels that break a rule of the device
        Agreement(
            "recip_in_place", "What a reciprocal on its own operand is", "TRECIP", "differs",
            "a2a3 fills the result with ones, and divides it by the operand: 1 everywhere. a5: not said.",
            "The reciprocal.", "As the simulator.", "recip divs",
            device_by="device", simulator_by="fast", only_broken=True,
        ),
        Agreement(
            "quotient_in_place", "What a scalar by a tile is, on the tile", "TDIVS", "differs",
            "a2a3 fills the result with the scalar, and divides it by the operand: 1 everywhere. A tile by a scalar is "
            "multiplied by the scalar's reciprocal there, rounded twice. a5: not said.",
            "The quotient.", "As the simulator.", "divs",
            device_by="device", simulator_by="fast", only_broken=True,
        ),
        Agreement(
            "bits_in_place", "What TANDS, TORS, TXORS and TXOR are on their own operand", "TANDS TORS TXORS TXOR",
            "differs",
            "a2a3 fills the result with the scalar before it reads the operand: the scalar everywhere. TXOR and TXORS "
            "are made of the others. a5: not said.",
            "As apart.", "As the simulator.", "bitwise xor",
            device_by="device", simulator_by="fast", only_broken=True,
        ),
        Agreement(
            "prelu_in_place", "What TPRELU is on its own operand", "TPRELU", "differs",
            "a2a3 writes the product before it chooses: the product everywhere. a5: not said.",
            "As apart.", "As the simulator.", "prelu",
            device_by="device", simulator_by="fast", kit=False, only_broken=True,
        ),
        Agreement(
            "small_scratch", "What the max of a row is in a scratch tile that is too small", "TROWSUM TROWMAX TROWMIN",
            "differs",
            "a2a3 combines rows of over 256 bytes in the scratch tile. It writes past a short one; rows of a narrow "
            "one lie on each other, so that all results are of all rows; from 64 to 127 floats nothing is done at all.",
            "The scratch tile is not used.", "As the simulator.", "row_reduce row_sum P2082",
            device_by="device", simulator_by="fast", only_broken=True,
        ),
        Agreement(
            "loose_accumulator", "Where the columns of an accumulator with fewer valid rows lie", "TSTORE TPUSH",
            "differs",
            "A product writes columns of fractals of its own rows; a store reads all rows of the tile, unless it is "
            "compact: columns from the 17th on are wrong.",
            "All tiles lie by all their rows.",
            "As the simulator. With NUMERICS=device NaN takes the place of what the product did not write.",
            "store matmul P2470",
            device_by="device", simulator_by="fast", kit=False, only_broken=True,
        ),
    )
}  # fmt: skip


def of_instruction(name: str) -> Iterator[Agreement]:
    """Yield the rows about an instruction."""
    return (row for row in AGREEMENTS.values() if name in row.names())
