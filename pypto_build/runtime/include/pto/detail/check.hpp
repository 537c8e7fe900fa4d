// The hooks of the checked build: what each instruction reads and writes. Without PYPTO_CHECK they leave nothing
// behind.
//
// PYPTO_WEAK, which goes with it, also reports what C++ itself reads and writes (plain.hpp).
//
// An instruction says PTO_CHECK(NAME, pipe, reads(a), writes(dst), ...), each operand with the rectangle it covers
// where that is not its valid region. An instruction made of others leaves that to them.
#ifndef PTO_DETAIL_CHECK_HPP
#define PTO_DETAIL_CHECK_HPP

#include "plain.hpp"

#ifndef PYPTO_CHECK
#define PTO_CHECK(...) ((void)0)
#define PTO_CHECK_ORDER(...) ((void)0)
#define PTO_CHECK_CLEAN(...) ((void)0)
#else

#include "../../pypto/check_abi.h"
#include "../../pypto/core_context.h"
#include "enums.hpp"
#include "macros.hpp"
#include "traits.hpp"

extern "C" __attribute__((weak, used, visibility("default"))) const int pypto_checked_kernel = 1;

namespace pto::detail {

PTO_INLINE PyptoCoreContext &core();
constexpr PyptoSpace space_of(TileType type);
namespace check {

struct Rectangle {
    int64_t row, col, rows, cols;
};

template <class E> constexpr PyptoElementType type_of() {
    return is_same<E, float>                                     ? PYPTO_FLOAT32
           : is_same<E, half>                                    ? PYPTO_FLOAT16
           : is_same<E, bfloat16_t>                              ? PYPTO_BFLOAT16
           : is_one_of<E, int8_t, int16_t, int32_t, int64_t>     ? PYPTO_SIGNED
           : is_one_of<E, uint8_t, uint16_t, uint32_t, uint64_t> ? PYPTO_UNSIGNED
                                                                 : PYPTO_BYTES;
}

template <class T> PTO_INLINE PyptoTileAccess access(const T &tile, Rectangle part, int kind) {
    constexpr bool fractals = T::isBoxedLayout;
    return {(const void *)tile.data(),
            uint8_t(space_of(T::Loc)),
            uint8_t(kind),
            uint8_t(fractals),
            uint8_t(type_of<typename T::DType>()),
            uint8_t(T::isInnerRowMajor),
            uint8_t(T::isRowMajor),
            uint32_t(sizeof(typename T::DType)),
            T::Rows,
            T::Cols,
            tile.GetValidRow(),
            tile.GetValidCol(),
            int32_t(part.row),
            int32_t(part.col),
            int32_t(part.rows),
            int32_t(part.cols),
            fractals ? int32_t(T::BoxRows) : 1,
            fractals ? int32_t(T::BoxCols) : 1};
}
template <class T> PTO_INLINE Rectangle valid(const T &tile) {
    return {0, 0, tile.GetValidRow(), tile.GetValidCol()};
}
template <class T> PTO_INLINE Rectangle whole(const T &) {
    return {0, 0, T::Rows, T::Cols};
}

// The results of a reduction of a matrix: one a row, or one a column; none of an empty matrix.
template <class S> PTO_INLINE Rectangle line_results(const S &src, bool of_rows) {
    if (src.GetValidRow() == 0 || src.GetValidCol() == 0)
        return {0, 0, 0, 0};
    return of_rows ? Rectangle{0, 0, src.GetValidRow(), 1} : Rectangle{0, 0, 1, src.GetValidCol()};
}
// The part of an operand that an expansion of rows to the shape of dst reads: one value, or 32 bytes, a row.
template <class S, class D> PTO_INLINE Rectangle row_operand(const S &, const D &dst) {
    const int64_t cols = dst.GetValidCol() < S::Cols ? dst.GetValidCol() : int64_t(S::Cols);
    return {0, 0, dst.GetValidRow(), S::isRowMajor && S::Cols * int(sizeof(typename S::DType)) == 32 ? 1 : cols};
}
// The elements of a packed mask for the valid region of a tile.
template <class M, class T> PTO_INLINE Rectangle bits_of(const M &, const T &tile) {
    constexpr int64_t bits = 8 * int64_t(sizeof(typename M::DType));
    return {0, 0, tile.GetValidRow(), (tile.GetValidCol() + bits - 1) / bits};
}

template <class T> PTO_INLINE PyptoTileAccess reads(const T &tile, Rectangle part) {
    return access(tile, part, PYPTO_READ);
}
template <class T> PTO_INLINE PyptoTileAccess reads(const T &tile) {
    return reads(tile, valid(tile));
}
template <class T> PTO_INLINE PyptoTileAccess carries(const T &tile, Rectangle part) {
    return access(tile, part, PYPTO_READ | PYPTO_CARRY);
}
template <class T> PTO_INLINE PyptoTileAccess writes(const T &tile, Rectangle part) {
    return access(tile, part, PYPTO_WRITE);
}
template <class T> PTO_INLINE PyptoTileAccess writes(const T &tile) {
    return writes(tile, valid(tile));
}
// A tile that an instruction works in: nothing can be known of what it holds afterwards. a2a3 needs those that the CPU
// has no use for; what else stands behind an instruction's operands (events, numbers) is nothing to it.
struct Nothing {};
template <class T> PTO_INLINE auto scratch(const T &operand) {
    if constexpr (PYPTO_ARCH == 2 && is_tile<T>)
        return access(operand, valid(operand), PYPTO_WRITE | PYPTO_SCRATCH);
    else
        return Nothing{};
}
// The scratch tile of a reduction along columns, and whether the sum is made pairwise in it.
template <class... A> PTO_INLINE Nothing pairwise_scratch(const A &...) {
    return {};
}
template <class T> PTO_INLINE auto pairwise_scratch(const T &tile, bool pairwise) {
    if constexpr (PYPTO_ARCH == 2 && is_tile<T>)
        return access(tile, pairwise ? valid(tile) : Rectangle{0, 0, 0, 0}, PYPTO_WRITE | PYPTO_SCRATCH);
    else
        return Nothing{};
}
// One element by its physical number.
template <class T> PTO_INLINE PyptoTileAccess element(const T &tile, int64_t number, int kind) {
    PyptoTileAccess one = access(tile, {0, 0, 1, 1}, kind);
    one.fractals = 0;
    one.row_major = 1;
    one.rows = 1;
    one.cols = T::Numel;
    one.valid_row = 1;
    one.valid_col = T::Numel;
    one.col = int32_t(number);
    return one;
}

constexpr int64_t all = int64_t(1) << 40; // rows or columns, as many as there are

template <class G> PTO_INLINE PyptoGlobalAccess global_access(const G &view, int64_t rows, int64_t cols, int kind) {
    return {(const void *)view.data(),
            uint8_t(kind),
            uint8_t(G::layout),
            uint32_t(sizeof(typename G::DType)),
            {view.GetShape(0), view.GetShape(1), view.GetShape(2), view.GetShape(3), view.GetShape(4)},
            {view.GetStride(0), view.GetStride(1), view.GetStride(2), view.GetStride(3), view.GetStride(4)},
            rows,
            cols};
}
template <class G> PTO_INLINE PyptoGlobalAccess loads(const G &view, int64_t rows, int64_t cols) {
    return global_access(view, rows, cols, PYPTO_READ);
}
template <class G> PTO_INLINE PyptoGlobalAccess stores(const G &view, int64_t rows, int64_t cols, bool atomic = false) {
    return global_access(view, rows, cols, PYPTO_WRITE | (atomic ? PYPTO_ATOMIC : 0));
}

// The rows of one rank within a view that has those of all ranks one below the other.
template <class G, class P>
PTO_INLINE PyptoGlobalAccess rank_part(const G &view, const P &part, int64_t rank, int kind) {
    PyptoGlobalAccess rows = global_access(view, all, all, kind);
    rows.base = (const void *)(view.data() + rank * part.GetShape(3) * view.GetStride(3));
    for (int d = 0; d < 5; ++d)
        rows.shape[d] = part.GetShape(d);
    return rows;
}

// A run of elements in global memory.
template <class E> PTO_INLINE PyptoGlobalAccess run(const E *from, int64_t count, int kind) {
    return {(const void *)from, uint8_t(kind), 0, uint32_t(sizeof(E)), {1, 1, 1, 1, count}, {0, 0, 0, 0, 1}, 1, count};
}

// The pipe that moves data from one memory to another.
constexpr pipe_t pipe_between(TileType from, TileType to) {
    return from == TileType::Acc                          ? PIPE_FIX
           : from == TileType::Mat                        ? PIPE_MTE1
           : from == TileType::Vec && to != TileType::Vec ? PIPE_MTE3
                                                          : PIPE_V;
}
template <class D, class S> constexpr pipe_t move_pipe(const D &, const S &) {
    return pipe_between(S::Loc, D::Loc);
}
template <class S> constexpr pipe_t store_pipe(const S &) {
    return S::Loc == TileType::Acc ? PIPE_FIX : PIPE_MTE3;
}

template <class... A> PTO_INLINE void instruction(const char *name, pipe_t pipe, const A &...operands) {
    PyptoCoreContext &context = core();
    if (context.check == nullptr)
        return;
    constexpr int count = (int(is_same<A, PyptoTileAccess>) + ... + 0);
    PyptoTileAccess tiles[count + 1];
    int next = 0;
    const auto pass = [&](const auto &operand) {
        if constexpr (is_same<decltype(operand), const PyptoTileAccess &>)
            tiles[next++] = operand;
    };
    (pass(operands), ...);
    if (count)
        context.check->tiles(&context, name, uint32_t(pipe), tiles, uint32_t(count));
    const auto touch = [&](const auto &operand) {
        if constexpr (is_same<decltype(operand), const PyptoGlobalAccess &>)
            context.check->global(&context, name, uint32_t(pipe), &operand);
    };
    (touch(operands), ...);
}

PTO_INLINE void order(uint32_t kind, uint32_t from, uint32_t to, uint32_t id) {
    PyptoCoreContext &context = core();
    if (context.check)
        context.check->order(&context, kind, from, to, id);
}

// dcci: of the line that holds an address, or of the whole data cache where it is null.
PTO_INLINE void clean(const void *address) {
    PyptoCoreContext &context = core();
    if (context.check)
        context.check->clean(&context, address);
}

} // namespace check
} // namespace pto::detail

#define PTO_CHECK(NAME, PIPE, ...)                                                                                     \
    do {                                                                                                               \
        using namespace ::pto::detail::check;                                                                          \
        instruction(#NAME, PIPE, __VA_ARGS__);                                                                         \
    } while (0)
#define PTO_CHECK_ORDER(...) ::pto::detail::check::order(__VA_ARGS__)
#define PTO_CHECK_CLEAN(...) ::pto::detail::check::clean(__VA_ARGS__)

#endif

#endif
