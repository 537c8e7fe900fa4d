// Quantization: TQUANT and TDEQUANT on vector tiles, and the scales that the accumulator's way out applies.
#ifndef PTO_DETAIL_QUANTIZE_HPP
#define PTO_DETAIL_QUANTIZE_HPP

#include "convert.hpp"
#include "memory.hpp"
#include "move.hpp"

namespace pto::detail {

// One scalar for a row: a column of them, or one value for all rows.
template <class P> PTO_INLINE float row_parameter(const P &parameters, int64_t row, int64_t col) {
    const int64_t cols = parameters.GetValidCol() > 1 ? parameters.GetValidCol() : 1;
    return float(
        parameters.data()[P::plane().offset(parameters.GetValidRow() > 1 ? row : 0, col < cols ? col : cols - 1)]);
}

// Converts an element of the accumulator as fixpipe does: scale, then round to nearest even, saturate integers.
template <class To, class From> PTO_INLINE To rescale(From value, float scale, bool relu) {
    float x = float(value) * scale;
    if (relu && x < 0.0f)
        x = 0.0f;
    if constexpr (is_int<To>)
        return convert_one<To, Rounding::NearestEven, true>(x);
    else
        return To(x);
}

// Fixpipe's scale: a float in the low half of 64 bits.
PTO_INLINE float fixpipe_scale(uint64_t bits) {
    return bits_float(uint32_t(bits));
}

struct UniformScale {
    float scale;
    PTO_INLINE float operator()(int64_t) const { return scale; }
};
template <class F> struct ScalePerColumn {
    const F *base;
    PTO_INLINE float operator()(int64_t col) const {
        if constexpr (sizeof(F) == 8)
            return fixpipe_scale(base[col]);
        else
            return float(base[col]);
    }
};
template <class F> PTO_INLINE auto scale_per_column(const F &parameters) {
    static_assert(F::Loc == TileType::Scaling, "fixpipe parameters lie in the Scaling memory (TileType::Scaling)");
    return ScalePerColumn<ElementType<F>>{parameters.data()};
}

// A rectangle of the accumulator, rescaled into a tile.
template <class D, class S, class Scale>
PTO_INLINE void move_rescaled(D &dst, Position at, const S &src, Position from, int64_t rows, int64_t cols, Scale scale,
                              bool relu) {
    static_assert(S::Loc == TileType::Acc, "a move with a scale or relu takes its source from the accumulator");
    PTO_CHECK(TMOV, move_pipe(dst, src), carries(src, {from.row, from.col, rows, cols}),
              writes(dst, {at.row, at.col, rows, cols}));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            dst.data()[D::plane().offset(at.row + r, at.col + c)] =
                rescale<ElementType<D>>(src.data()[S::plane().offset(from.row + r, from.col + c)], scale(c), relu);
}

template <AtomicType atomic, class G, class S, class Scale>
PTO_INLINE void store_rescaled(G &dst, const S &src, Scale scale, bool relu) {
    static_assert(S::Loc == TileType::Acc, "TSTORE with a scale or relu takes its source from the accumulator");
    using To = ElementType<G>;
    const Extent5 extent = extent_of(dst);
    const auto *const from = read_elements(src);
    PTO_CHECK(TSTORE, PIPE_FIX, reads(src),
              stores(dst, src.GetValidRow(), src.GetValidCol(), atomic == AtomicType::AtomicAdd));
    for_each_matrix(
        extent, src.GetValidRow(), src.GetValidCol(), [&](int64_t offset, Position at, int64_t h, int64_t w) {
            for (int64_t r = 0; r < h; ++r)
                for (int64_t c = 0; c < w; ++c) {
                    To *const place = dst.data() + offset + r * extent.stride[3] + c * extent.stride[4];
                    const To value =
                        rescale<To>(from[S::plane().offset(at.row + r, at.col + c)], scale(at.col + c), relu);
                    if constexpr (atomic == AtomicType::AtomicAdd)
                        atomic_add(place, value);
                    else
                        *place = value;
                }
        });
}

template <class D, class S>
PTO_INLINE void move_relu(D &dst, Position at, const S &src, Position from, int64_t rows, int64_t cols, bool relu) {
    if (relu)
        return move_rescaled(dst, at, src, from, rows, cols, UniformScale{1.0f}, true);
    PTO_CHECK(TMOV, move_pipe(dst, src), carries(src, {from.row, from.col, rows, cols}),
              writes(dst, {at.row, at.col, rows, cols}));
    copy_elements(dst.data(), D::plane(), at, src.data(), S::plane(), from, rows, cols);
}

// A move to one of two vector cores, or split between them: the part of the source that this core takes.
template <AccToVecMode mode, class D> PTO_INLINE Position accumulator_part(const D &dst) {
    const int64_t lane = core().sub_block;
    return mode == AccToVecMode::DualModeSplitM   ? Position{lane * dst.GetValidRow(), 0}
           : mode == AccToVecMode::DualModeSplitN ? Position{0, lane * dst.GetValidCol()}
                                                  : Position{0, 0};
}

} // namespace pto::detail

namespace pto {

// TSTORE(global, accumulator, scale): every element times the float in the low half of `scale`.
template <class S, class G, AtomicType atomic = AtomicType::AtomicNone, ReluPreMode relu = ReluPreMode::NoRelu>
PTO_INST RecordEvent TSTORE(G &dst, const S &src, uint64_t scale) {
    detail::store_rescaled<atomic>(dst, src, detail::UniformScale{detail::fixpipe_scale(scale)},
                                   relu == ReluPreMode::NormalRelu);
    return {};
}
// TSTORE<Tile, Global, atomic, relu>(global, tile).
template <class S, class G, AtomicType atomic, ReluPreMode relu> PTO_INST RecordEvent TSTORE(G &dst, const S &src) {
    if constexpr (relu == ReluPreMode::NoRelu)
        return TSTORE<S, G, atomic>(dst, src);
    detail::store_rescaled<atomic>(dst, src, detail::UniformScale{1.0f}, true);
    return {};
}
// TSTORE<phase>(global, tile): the phase only schedules hardware.
template <STPhase phase, class S, class G> PTO_INST RecordEvent TSTORE(G &dst, const S &src) {
    return TSTORE<S, G>(dst, src);
}
// TSTORE_FP(global, accumulator, scales): a scale for each column.
template <class S, class G, class F, AtomicType atomic = AtomicType::AtomicNone, ReluPreMode relu = ReluPreMode::NoRelu,
          class... Rest>
PTO_INST RecordEvent TSTORE_FP(G &dst, const S &src, const F &scales, Rest &...) {
    detail::store_rescaled<atomic>(dst, src, detail::scale_per_column(scales), relu == ReluPreMode::NormalRelu);
    return {};
}

// TEXTRACT and TMOV with relu, with a scale, with a scale for each column, and to a chosen vector core.
template <class D, class S, ReluPreMode relu>
PTO_INST RecordEvent TEXTRACT(D &dst, const S &src, int64_t row, int64_t col) {
    detail::move_relu(dst, {0, 0}, src, {row, col}, dst.GetValidRow(), dst.GetValidCol(),
                      relu == ReluPreMode::NormalRelu);
    return {};
}
template <class D, class S, ReluPreMode relu = ReluPreMode::NoRelu>
PTO_INST RecordEvent TEXTRACT(D &dst, const S &src, uint64_t scale, int64_t row, int64_t col) {
    detail::move_rescaled(dst, {0, 0}, src, {row, col}, dst.GetValidRow(), dst.GetValidCol(),
                          detail::UniformScale{detail::fixpipe_scale(scale)}, relu == ReluPreMode::NormalRelu);
    return {};
}
template <class D, class S, class F, ReluPreMode relu = ReluPreMode::NoRelu>
PTO_INST RecordEvent TEXTRACT_FP(D &dst, const S &src, const F &scales, int64_t row, int64_t col) {
    detail::move_rescaled(dst, {0, 0}, src, {row, col}, dst.GetValidRow(), dst.GetValidCol(),
                          detail::scale_per_column(scales), relu == ReluPreMode::NormalRelu);
    return {};
}
template <class D, class S, ReluPreMode relu> PTO_INST RecordEvent TMOV(D &dst, const S &src) {
    return TEXTRACT<D, S, relu>(dst, src, 0, 0);
}
template <class D, class S, AccToVecMode mode, ReluPreMode relu = ReluPreMode::NoRelu>
PTO_INST RecordEvent TMOV(D &dst, const S &src) {
    const detail::Position part = detail::accumulator_part<mode>(dst);
    return TEXTRACT<D, S, relu>(dst, src, part.row, part.col);
}
template <class D, class S, ReluPreMode relu = ReluPreMode::NoRelu>
PTO_INST RecordEvent TMOV(D &dst, const S &src, uint64_t scale) {
    return TEXTRACT<D, S, relu>(dst, src, scale, 0, 0);
}
template <class D, class S, AccToVecMode mode, ReluPreMode relu = ReluPreMode::NoRelu>
PTO_INST RecordEvent TMOV(D &dst, const S &src, uint64_t scale) {
    const detail::Position part = detail::accumulator_part<mode>(dst);
    return TEXTRACT<D, S, relu>(dst, src, scale, part.row, part.col);
}
template <class D, class S, class F, ReluPreMode relu = ReluPreMode::NoRelu, class... Rest>
PTO_INST RecordEvent TMOV_FP(D &dst, const S &src, const F &scales, Rest &...) {
    return TEXTRACT_FP<D, S, F, relu>(dst, src, scales, 0, 0);
}
template <class D, class S, ReluPreMode relu>
PTO_INST RecordEvent TINSERT(D &dst, const S &src, int64_t row, int64_t col) {
    detail::move_relu(dst, {row, col}, src, {0, 0}, src.GetValidRow(), src.GetValidCol(),
                      relu == ReluPreMode::NormalRelu);
    return {};
}
template <class D, class S, ReluPreMode relu = ReluPreMode::NoRelu>
PTO_INST RecordEvent TINSERT(D &dst, const S &src, uint64_t scale, int64_t row, int64_t col) {
    detail::move_rescaled(dst, {row, col}, src, {0, 0}, src.GetValidRow(), src.GetValidCol(),
                          detail::UniformScale{detail::fixpipe_scale(scale)}, relu == ReluPreMode::NormalRelu);
    return {};
}
template <class D, class S, class F, ReluPreMode relu = ReluPreMode::NoRelu>
PTO_INST RecordEvent TINSERT_FP(D &dst, const S &src, const F &scales, int64_t row, int64_t col) {
    detail::move_rescaled(dst, {row, col}, src, {0, 0}, src.GetValidRow(), src.GetValidCol(),
                          detail::scale_per_column(scales), relu == ReluPreMode::NormalRelu);
    return {};
}

// TQUANT<type>(dst, src, scale[, tmp][, &offset]): round(src * scale + offset), saturated, with parameters for each
// row: what is called the scale there is what src is multiplied with, the inverse of what TDEQUANT takes.
template <QuantType type, class D, class S, class P>
PTO_INST RecordEvent TQUANT(D &dst, const S &src, const P &scale, const P *offset = nullptr) {
    static_assert(type == QuantType::INT8_SYM || type == QuantType::INT8_ASYM,
                  "TQUANT: only to int8; mx formats are not supported");
    static_assert(detail::is_same<detail::ElementType<S>, float> &&
                      detail::is_one_of<detail::ElementType<D>, int8_t, uint8_t>,
                  "TQUANT: from a float to an int8_t or uint8_t tile");
    PTO_CHECK(TQUANT, PIPE_V, reads(src), reads(scale), writes(dst, valid(src)));
    for (int64_t r = 0; r < src.GetValidRow(); ++r)
        for (int64_t c = 0; c < src.GetValidCol(); ++c) {
            using detail::Rounding;
            const float x = float(src.data()[S::plane().offset(r, c)]) * detail::row_parameter(scale, r, c);
            const float shifted = offset ? x + detail::row_parameter(*offset, r, c) : x;
            dst.data()[D::plane().offset(r, c)] =
                detail::convert_one<detail::ElementType<D>, Rounding::NearestEven, true>(shifted);
        }
    return {};
}
template <QuantType type, class D, class S, class P, class Tmp>
PTO_INST auto TQUANT(D &dst, const S &src, const P &scale, const Tmp &, const P *offset = nullptr)
    -> detail::enable_if_t<detail::is_tile<Tmp>, RecordEvent> {
    return TQUANT<type>(dst, src, scale, offset);
}

// TDEQUANT(dst, src, scale, offset): (src - offset) * scale, with parameters for each row.
template <class D, class S, class P, class... Rest>
PTO_INST RecordEvent TDEQUANT(D &dst, const S &src, const P &scale, const P &offset, Rest &...) {
    static_assert(detail::is_int<detail::ElementType<S>> && detail::is_same<detail::ElementType<D>, float>,
                  "TDEQUANT: from an integer to a float tile");
    PTO_CHECK(TDEQUANT, PIPE_V, reads(src), reads(scale), reads(offset), writes(dst, valid(src)));
    for (int64_t r = 0; r < src.GetValidRow(); ++r)
        for (int64_t c = 0; c < src.GetValidCol(); ++c)
            dst.data()[D::plane().offset(r, c)] =
                (float(src.data()[S::plane().offset(r, c)]) - detail::row_parameter(offset, r, c)) *
                detail::row_parameter(scale, r, c);
    return {};
}

} // namespace pto

#endif
