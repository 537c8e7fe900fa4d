// Tile: a typed matrix at an address of one on-chip memory, with a valid region that may be set at run time.
#ifndef PTO_DETAIL_TILE_HPP
#define PTO_DETAIL_TILE_HPP

#include <cstdint>

#include "check.hpp"
#include "enums.hpp"
#include "global_tensor.hpp"
#include "plane.hpp"

namespace pto {

template <TileType Loc_, class E, int Rows_, int Cols_, BLayout BLayout_ = BLayout::RowMajor, int ValidRow_ = Rows_,
          int ValidCol_ = Cols_, SLayout SLayout_ = SLayout::NoneBox, int Fractal_ = 512,
          PadValue Pad_ = PadValue::Null, CompactMode Compact_ = CompactMode::Null>
struct Tile {
    using DType = E;
    using TileDType = E *;
    static constexpr TileType Loc = Loc_;
    static constexpr int Rows = Rows_, Cols = Cols_, Numel = Rows_ * Cols_;
    static constexpr int ValidRow = ValidRow_, ValidCol = ValidCol_;
    static constexpr BLayout BFractal = BLayout_;
    static constexpr SLayout SFractal = SLayout_;
    static constexpr int SFractalSize = Fractal_;
    static constexpr PadValue PadVal = Pad_;
    static constexpr CompactMode Compact = Compact_;
    static constexpr bool isRowMajor = BLayout_ == BLayout::RowMajor;
    static constexpr bool isBoxedLayout = SLayout_ != SLayout::NoneBox;
    static constexpr bool isInnerRowMajor = SLayout_ == SLayout::RowMajor;
    static constexpr bool isInnerColMajor = SLayout_ == SLayout::ColMajor;

    static_assert(Fractal_ == 512 || Fractal_ == 1024 || Fractal_ == 32, "Tile: the fractal size is 512, 1024 or 32");
    // A fractal holds 512 bytes, the accumulator's 16 x 16 elements, an mx scale's 16 x 2.
    static constexpr int LongSide = 16;
    static constexpr int ShortSide = Fractal_ == 1024 ? 16 : Fractal_ == 32 ? 2 : 32 / int(sizeof(E));
    static constexpr int InnerRows = !isBoxedLayout ? 1 : isInnerRowMajor ? LongSide : ShortSide;
    static constexpr int InnerCols = !isBoxedLayout ? 1 : isInnerRowMajor ? ShortSide : LongSide;
    static constexpr int InnerNumel = InnerRows * InnerCols;
    static constexpr int RowStride = isBoxedLayout ? 0 : isRowMajor ? Cols_ : 1;
    static constexpr int ColStride = isBoxedLayout ? 0 : isRowMajor ? 1 : Rows_;

    // A vector (one row, or one column) of fractals is stored densely, as if its fractals had that extent.
    static constexpr int64_t BoxRows = Rows_ == 1 ? 1 : InnerRows;
    static constexpr int64_t BoxCols = Cols_ == 1 ? 1 : InnerCols;
    // A function: an object would be an instance of its own for every shape.
    PTO_INLINE static constexpr detail::Plane plane() {
        return !isBoxedLayout ? detail::strided_plane(RowStride, ColStride)
                              : detail::Plane{detail::log2(BoxRows),
                                              detail::log2(BoxCols),
                                              isRowMajor ? BoxRows * Cols_ : BoxRows * BoxCols,
                                              isRowMajor ? BoxRows * BoxCols : BoxCols * Rows_,
                                              isInnerRowMajor ? BoxCols : 1,
                                              isInnerRowMajor ? 1 : BoxRows};
    }

    PTO_INLINE Tile() {}
    PTO_INLINE Tile(int64_t valid) : RowMaskInternal(int(valid)), ColMaskInternal(int(valid)) {
        static_assert((ValidRow_ == DYNAMIC) != (ValidCol_ == DYNAMIC),
                      "Tile(n): exactly one of the valid extents is dynamic");
    }
    PTO_INLINE Tile(int64_t valid_row, int64_t valid_col)
        : RowMaskInternal(int(valid_row)), ColMaskInternal(int(valid_col)) {}

    PTO_INLINE E *&data() { return pointer_; }
    PTO_INLINE E *data() const { return pointer_; }
    PTO_INLINE int GetValidRow() const { return ValidRow_ == DYNAMIC ? RowMaskInternal : ValidRow_; }
    PTO_INLINE int GetValidCol() const { return ValidCol_ == DYNAMIC ? ColMaskInternal : ValidCol_; }
    PTO_INLINE void SetValidShape(int64_t valid_row, int64_t valid_col) {
        RowMaskInternal = int(valid_row);
        ColMaskInternal = int(valid_col);
    }
    PTO_INLINE void SetValidRow(int64_t valid_row) { RowMaskInternal = int(valid_row); }
    PTO_INLINE void SetValidCol(int64_t valid_col) { ColMaskInternal = int(valid_col); }

    // Scalar access by physical element number; only the vector core's memory is visible to its scalar unit.
    PTO_INLINE E GetValue(int64_t offset) const {
        static_assert(Loc_ == TileType::Vec, "GetValue: only Vec tiles can be read element by element");
        PTO_CHECK(GetValue, PIPE_S, element(*this, offset, PYPTO_READ));
        return pointer_[offset];
    }
    PTO_INLINE void SetValue(int64_t offset, E value) {
        static_assert(Loc_ == TileType::Vec, "SetValue: only Vec tiles can be written element by element");
        PTO_CHECK(SetValue, PIPE_S, element(*this, offset, PYPTO_WRITE));
        pointer_[offset] = value;
    }
    static constexpr uint64_t GetSizeInBytes() { return uint64_t(Numel) * sizeof(E); }
    // Hardware's steps through an operand; of no consequence here.
    PTO_INLINE void SetKAligned(bool aligned) { k_aligned_ = aligned; }
    PTO_INLINE bool GetKAligned() const { return k_aligned_; }
    static constexpr int64_t GetOffset(int64_t row, int64_t col) { return plane().offset(row, col); }

    // The valid extents where they are dynamic: hand-written kernels set them by these names.
    int RowMaskInternal = Rows_, ColMaskInternal = Cols_;

private:
    E *pointer_ = nullptr;
    bool k_aligned_ = false;
};

namespace detail {
template <TileType L, class E, int R, int C, BLayout B, int VR, int VC, SLayout S, int F, PadValue P, CompactMode M>
inline constexpr bool is_tile<Tile<L, E, R, C, B, VR, VC, S, F, P, M>> = true;
} // namespace detail

// The operand tiles of a matrix multiplication, with the layouts of the target.
template <class E, int Rows, int Cols, int VR = Rows, int VC = Cols, CompactMode M = CompactMode::Null>
using TileLeft = Tile<TileType::Left, E, Rows, Cols, PYPTO_ARCH == 5 ? BLayout::ColMajor : BLayout::RowMajor, VR, VC,
                      SLayout::RowMajor, 512, PadValue::Null, M>;
template <class E, int Rows, int Cols, int VR = Rows, int VC = Cols, CompactMode M = CompactMode::Null>
using TileRight =
    Tile<TileType::Right, E, Rows, Cols, BLayout::RowMajor, VR, VC, SLayout::ColMajor, 512, PadValue::Null, M>;
template <class E, int Rows, int Cols, int VR = Rows, int VC = Cols, CompactMode M = CompactMode::Null>
using TileAcc =
    Tile<TileType::Acc, E, Rows, Cols, BLayout::ColMajor, VR, VC, SLayout::RowMajor, 1024, PadValue::Null, M>;
template <class E, int Rows, int Cols, int VR = Rows, int VC = Cols>
using TileLeftCompact = TileLeft<E, Rows, Cols, VR, VC, CompactMode::Normal>;
template <class E, int Rows, int Cols, int VR = Rows, int VC = Cols>
using TileRightCompact = TileRight<E, Rows, Cols, VR, VC, CompactMode::Normal>;
template <class E, int Rows, int Cols, int VR = Rows, int VC = Cols>
using TileAccCompact = TileAcc<E, Rows, Cols, VR, VC, CompactMode::Normal>;

// The shape and strides of a matrix of `Rows` x `Cols` elements stored without gaps.
template <class E, int Rows, int Cols, Layout L = Layout::ND>
struct TileShape2D
    : detail::conditional_t<L == Layout::NZ, Shape<1, Cols / (32 / int(sizeof(E))), Rows / 16, 16, 32 / int(sizeof(E))>,
                            Shape<1, 1, 1, Rows, Cols>> {};
template <class E, int Rows, int Cols, Layout L = Layout::ND>
struct BaseShape2D
    : detail::conditional_t<
          L == Layout::ND, Stride<int64_t(Rows) * Cols, int64_t(Rows) * Cols, int64_t(Rows) * Cols, Cols, 1>,
          detail::conditional_t<L == Layout::DN,
                                Stride<int64_t(Rows) * Cols, int64_t(Rows) * Cols, int64_t(Rows) * Cols, 1, Rows>,
                                Stride<int64_t(Rows) * Cols, int64_t(Rows) * (32 / int(sizeof(E))),
                                       512 / int(sizeof(E)), 32 / int(sizeof(E)), 1>>> {};

} // namespace pto

#endif
