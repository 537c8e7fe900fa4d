// Enumerations of the tile instruction set. The values are part of the interface: generated code may cast to them.
#ifndef PTO_DETAIL_ENUMS_HPP
#define PTO_DETAIL_ENUMS_HPP

#include <cstdint>

#include "float16.hpp"
#include "float8.hpp"

// Pipelines and hardware events: numbers that set_flag and its kin take.
enum pipe_t {
    PIPE_S = 0,
    PIPE_V = 1,
    PIPE_M = 2,
    PIPE_MTE1 = 3,
    PIPE_MTE2 = 4,
    PIPE_MTE3 = 5,
    PIPE_ALL = 6,
    PIPE_MTE4 = 7,
    PIPE_MTE5 = 8,
    PIPE_V2 = 9,
    PIPE_FIX = 10
};
typedef int event_t;
constexpr event_t EVENT_ID0 = 0, EVENT_ID1 = 1, EVENT_ID2 = 2, EVENT_ID3 = 3, EVENT_ID4 = 4, EVENT_ID5 = 5,
                  EVENT_ID6 = 6, EVENT_ID7 = 7;

namespace pto {

constexpr int DYNAMIC = -1;

enum class TileType { Vec, Mat, Left, Right, Acc, Bias, Scaling, ScaleLeft, ScaleRight, Ctrl };
enum class BLayout { RowMajor = 0, ColMajor = 1 };
enum class SLayout { NoneBox = 0, RowMajor = 1, ColMajor = 2 };
enum class Layout {
    ND,
    DN,
    NZ,
    SCALE,
    MX_A_ND,
    MX_A_DN,
    MX_A_ZZ,
    MX_B_ND,
    MX_B_DN,
    MX_B_NN,
    HIF4_A_ZZ,
    HIF4_B_NN,
    NC1HWC0,
    GNC1HWC0,
    NCHW,
    GNCHW,
    NHWC,
    NDC1HWC0,
    NCDHW,
    FRACTAL_Z,
    FRACTAL_Z_S16S8,
    FRACTAL_Z_3D,
    MAX
};
// Beyond the named values, a pad value with bit 32 set carries the element's bit pattern in its low half.
enum class PadValue : uint64_t { Null = 0, Zero = 1, Max = 2, Min = 3, CustomBase = uint64_t(1) << 32 };
enum class CompactMode { Null, Normal, RowPlusOne, RowAlignedPadding };

enum class RoundMode {
    CAST_NONE = 0,
    CAST_RINT = 1,
    CAST_ROUND = 2,
    CAST_FLOOR = 3,
    CAST_CEIL = 4,
    CAST_TRUNC = 5,
    CAST_ODD = 6
};
enum class SaturationMode { ON = 0, OFF = 1 };
enum class CmpMode { EQ, NE, LT, LE, GT, GE };
enum class MaskPattern { P0101 = 1, P1010 = 2, P0001 = 3, P0010 = 4, P0100 = 5, P1000 = 6, P1111 = 7 };
enum class ReluPreMode { NoRelu, NormalRelu };
enum class AtomicType { AtomicNone, AtomicAdd };
enum class AccToVecMode { SingleModeVec0, SingleModeVec1, DualModeSplitM, DualModeSplitN };
enum class STPhase { Unspecified = 0, Partial = 2, Final = 3 };
enum class AccPhase { Unspecified = 0, Partial = 2, Final = 3 };
enum class TFillPadMode { Normal, InPlace, Expand };
enum class QuantType { MXFP8, MXFP4_E2M1, INT8_SYM, INT8_ASYM };
enum class GatherOOB { Undefined, Clamp, Wrap, Zero };
enum class ScatterOOB { Undefined, Skip, Clamp, Wrap };
enum class ScatterAtomicOp { None, Add, Max, Min };
enum class ScatterConflict { Last, Default };
enum class Coalesce { Row = 0, Elem = 1 };
enum class GatherAxis { GATHER_ROW, GATHER_COL, ROW = GATHER_ROW, COL = GATHER_COL };
enum class ScatterAxis { SCATTER_ROW, SCATTER_COL, ROW = SCATTER_ROW, COL = SCATTER_COL };
enum class PrintFormat { Width8_Precision4, Width8_Precision2, Width10_Precision6 };
enum class HistByte { BYTE_0, BYTE_1, BYTE_2, BYTE_3 };

// Precision of an operation. Both settings give the same here, as exact as float.
enum class DivAlgorithm { DEFAULT, HIGH_PRECISION };
enum class ExpAlgorithm { DEFAULT, HIGH_PRECISION };
enum class LogAlgorithm { DEFAULT, HIGH_PRECISION };
enum class SqrtAlgorithm { DEFAULT, HIGH_PRECISION };
enum class RsqrtAlgorithm { DEFAULT, HIGH_PRECISION };
enum class RecipAlgorithm { DEFAULT, HIGH_PRECISION };
enum class PowAlgorithm { DEFAULT, HIGH_PRECISION };
enum class FmodAlgorithm { DEFAULT, HIGH_PRECISION };
enum class RemAlgorithm { DEFAULT, HIGH_PRECISION };

enum Direction {
    DIR_C2V = 1,
    DIR_V2C = 2,
    DIR_BOTH = 3,
    DIR_V2C_CTRL = 4,
    DIR_C2V_GM = 5,
    DIR_V2C_GM = 6,
    DIR_BOTH_GM = 7
};
enum class TileSplitAxis { TILE_NO_SPLIT, TILE_UP_DOWN, TILE_LEFT_RIGHT, TILE_UP_DOWN_ODD, TILE_LEFT_RIGHT_ODD };

struct MrgSortExecutedNumList {
    uint16_t mrgSortList0, mrgSortList1, mrgSortList2, mrgSortList3;
};

// The pad value whose bit pattern is that of `value`; sizes below four bytes take the low bytes.
template <class T> constexpr PadValue PadValueCustom(T value) {
    uint32_t bits = 0;
    if constexpr (detail::is_same<T, float>)
        bits = detail::float_bits(value);
    else if constexpr (detail::is_same<T, double>)
        bits = detail::float_bits(float(value));
    else if constexpr (detail::is_same<T, bfloat16_t>)
        bits = value.bits;
    else if constexpr (detail::is_same<T, half>)
        bits = __builtin_bit_cast(uint16_t, value);
    else
        bits = uint32_t(value);
    return PadValue(uint64_t(PadValue::CustomBase) | bits);
}
constexpr PadValue PadValueCustom16(uint16_t bits) {
    return PadValue(uint64_t(PadValue::CustomBase) | bits);
}
constexpr bool isCustomPadValue(PadValue pad) {
    return pad >= PadValue::CustomBase;
}
constexpr uint32_t getCustomPadBits(PadValue pad) {
    return uint32_t(pad);
}

} // namespace pto

#endif
