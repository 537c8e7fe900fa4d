// Cross-core pipes: rings of slots between the cube core and the vector cores of a group. The runtime owns the rings; a
// slot holds one matrix, row by row, of which each vector core has half when the pipe is split.
#ifndef PTO_DETAIL_PIPE_HPP
#define PTO_DETAIL_PIPE_HPP

#include "accumulator.hpp"
#include "copy.hpp"
#include "core.hpp"
#include "elementwise.hpp"

namespace pto {

template <uint8_t FlagId, uint8_t DirType, uint32_t SlotSize, uint32_t SlotNum, uint32_t LocalSlotNum = 2,
          bool IsNoSplit = false, bool UnitFlag = false>
struct TPipe {
    static constexpr uint32_t slot_bytes = SlotSize, slot_count = SlotNum;
    static constexpr uint32_t local_slots = LocalSlotNum ? LocalSlotNum : 1;
    static constexpr bool no_split = IsNoSplit;

    // `gm` is the memory that backs the ring on hardware; the two addresses are those of the buffers, in the vector and
    // in the cube core's memory, that popped tiles are placed in.
    template <class Gm>
    TPipe(Gm, int64_t c2v_buffer, int64_t v2c_buffer)
        : consumer_buffer_(detail::core().is_vector ? c2v_buffer : v2c_buffer) {
        const PyptoPipeSpec spec{FlagId, SlotSize, SlotNum, direction(), LocalSlotNum, IsNoSplit};
        if (takes_part())
            pipe_ = detail::core().pipe_open(&detail::core(), &spec);
    }

    // The second vector core has no part in a pipe that is not split.
    static bool takes_part() { return !(IsNoSplit && lane() != 0); }
    static int lane() { return detail::core().is_vector ? detail::core().sub_block : 0; }
    static int producing_to_vector() { return !detail::core().is_vector; }
    static int consuming_to_vector() { return int(detail::core().is_vector); }

    uint8_t *acquire() { return detail::core().pipe_acquire(&detail::core(), pipe_, producing_to_vector()); }
    void commit() { detail::core().pipe_commit(&detail::core(), pipe_, producing_to_vector()); }
    uint8_t *front() { return detail::core().pipe_front(&detail::core(), pipe_, consuming_to_vector()); }
    void release() { detail::core().pipe_release(&detail::core(), pipe_, consuming_to_vector()); }

    // Popped tiles rotate through the consumer's buffer.
    uint64_t next_buffer() { return uint64_t(consumer_buffer_) + uint64_t(popped_++ % local_slots) * SlotSize; }

private:
    // The forms through global memory of a5 are the same rings.
    static constexpr uint32_t direction() {
        return DirType >= DIR_C2V_GM     ? DirType - DIR_C2V_GM + DIR_C2V
               : DirType == DIR_V2C_CTRL ? uint32_t(DIR_V2C)
                                         : DirType;
    }

    PyptoPipe *pipe_ = nullptr;
    int64_t consumer_buffer_;
    uint32_t popped_ = 0;
};

namespace detail {

template <class T> inline constexpr bool is_pipe = false;
template <uint8_t F, uint8_t D, uint32_t S, uint32_t N, uint32_t L, bool P, bool U>
inline constexpr bool is_pipe<TPipe<F, D, S, N, L, P, U>> = true;

constexpr bool splits_rows(TileSplitAxis split) {
    return split == TileSplitAxis::TILE_UP_DOWN || split == TileSplitAxis::TILE_UP_DOWN_ODD;
}
constexpr bool splits_cols(TileSplitAxis split) {
    return split == TileSplitAxis::TILE_LEFT_RIGHT || split == TileSplitAxis::TILE_LEFT_RIGHT_ODD;
}

// Start of this core's part of a slot, and the length of a slot's rows, for a part of rows x cols elements. The first
// vector core has the larger half of an odd extent: the second one's part starts one later than it is long.
struct SlotPart {
    int64_t offset, stride;
};
PTO_INLINE SlotPart slot_part(TileSplitAxis split, int64_t rows, int64_t cols, int64_t valid_rows, int64_t valid_cols) {
    const PyptoCoreContext &c = core();
    if (!c.is_vector || split == TileSplitAxis::TILE_NO_SPLIT)
        return {0, cols};
    const int64_t lane = c.sub_block;
    if (split == TileSplitAxis::TILE_UP_DOWN_ODD)
        return {lane * (valid_rows + 1) * cols, cols};
    if (split == TileSplitAxis::TILE_LEFT_RIGHT_ODD)
        return {lane * (valid_cols + 1), 2 * cols};
    return splits_rows(split) ? SlotPart{lane * rows * cols, cols} : SlotPart{lane * cols, 2 * cols};
}
template <TileSplitAxis split, class T> PTO_INLINE SlotPart slot_part(const T &tile) {
    return slot_part(split, T::Rows, T::Cols, tile.GetValidRow(), tile.GetValidCol());
}

// The bytes of a slot that a view of it starts at.
template <TileSplitAxis split, class G> PTO_INLINE uint64_t view_offset(const G &view) {
    const int64_t rows = view.GetShape(3), cols = view.GetShape(4), stride = view.GetStride(3);
    const PyptoCoreContext &c = core();
    const int64_t lane = c.is_vector ? c.sub_block : 0;
    const int64_t elements = splits_rows(split) ? lane * rows * stride : splits_cols(split) ? lane * cols : 0;
    return uint64_t(elements) * sizeof(typename G::DType);
}

// In a pipe that others split, a core takes its turn without data when a transfer is not split.
template <TileSplitAxis split, class Pipe> PTO_INLINE bool has_data() {
    return split != TileSplitAxis::TILE_NO_SPLIT || Pipe::lane() == 0;
}

} // namespace detail

// TPUSH<Pipe, Tile, split>(pipe, tile): waits for a free slot, writes the tile into it, hands it over.
template <class Pipe, class T, TileSplitAxis split, class... Rest>
PTO_INST auto TPUSH(Pipe &pipe, T &tile, Rest &...) -> detail::enable_if_t<detail::is_tile<T>, RecordEvent> {
    if (!Pipe::takes_part())
        return {};
    using E = detail::ElementType<T>;
    PTO_CHECK(TPUSH, store_pipe(tile), reads(tile));
    E *const slot = (E *)pipe.acquire();
    if (detail::has_data<split, Pipe>()) {
        const detail::SlotPart part = detail::slot_part<split>(tile);
        detail::copy_elements(slot + part.offset, detail::strided_plane(part.stride, 1), {0, 0},
                              detail::read_elements(tile), T::plane(), {0, 0}, tile.GetValidRow(), tile.GetValidCol());
    }
    pipe.commit();
    return {};
}
// TPUSH(tile, pipe): not split.
template <class T, class Pipe, class = detail::enable_if_t<detail::is_tile<T> && detail::is_pipe<Pipe>>>
PTO_INST RecordEvent TPUSH(T &tile, Pipe &pipe) {
    return TPUSH<Pipe, T, TileSplitAxis::TILE_NO_SPLIT>(pipe, tile);
}

// TPOP<Pipe, Tile, split>(pipe, tile): waits for a full slot and reads it into the tile, which is placed in the
// consumer's buffer. On a2a3 that frees the slot; on a5 the slot is the buffer itself, and TFREE frees it.
template <class Pipe, class T, TileSplitAxis split, class... Rest>
PTO_INST auto TPOP(Pipe &pipe, T &tile, Rest &...) -> detail::enable_if_t<detail::is_tile<T>, RecordEvent> {
    TASSIGN(tile, pipe.next_buffer());
    const int64_t rows = tile.GetValidRow(), cols = tile.GetValidCol();
    PTO_CHECK(TPOP, PIPE_MTE2, writes(tile));
    using E = detail::ElementType<T>;
    const E *const slot = Pipe::takes_part() ? (const E *)pipe.front() : nullptr;
    if (slot && detail::has_data<split, Pipe>()) {
        const detail::SlotPart part = detail::slot_part<split>(tile);
        detail::copy_elements(tile.data(), T::plane(), {0, 0}, slot + part.offset,
                              detail::strided_plane(part.stride, 1), {0, 0}, rows, cols);
    } else {
        detail::fill_tile(tile, 0, 0, rows, cols, E{});
    }
    if (slot && PYPTO_ARCH == 2)
        pipe.release();
    return {};
}
template <class T, class Pipe, class = detail::enable_if_t<detail::is_tile<T> && detail::is_pipe<Pipe>>>
PTO_INST RecordEvent TPOP(T &tile, Pipe &pipe) {
    return TPOP<Pipe, T, TileSplitAxis::TILE_NO_SPLIT>(pipe, tile);
}

// TFREE<Pipe, split>(pipe): the oldest popped tile is no longer needed.
template <class Pipe, TileSplitAxis split = TileSplitAxis::TILE_NO_SPLIT, class... Rest>
PTO_INST RecordEvent TFREE(Pipe &pipe, Rest &...) {
    if (PYPTO_ARCH != 2 && Pipe::takes_part())
        pipe.release();
    return {};
}

// The forms with a view of the slot instead of a tile: TALLOC gives the producer a free slot and TPUSH hands it over;
// TPOP gives the consumer a full one and TFREE hands it back.
template <class Pipe, class G, TileSplitAxis split, class... Rest>
PTO_INST auto TALLOC(Pipe &pipe, G &view, Rest &...) -> detail::enable_if_t<detail::is_global_tensor<G>, RecordEvent> {
    if (Pipe::takes_part())
        view.SetAddr((typename G::DType *)(pipe.acquire() + detail::view_offset<split>(view)));
    return {};
}
template <class Pipe, class G, TileSplitAxis split, class... Rest>
PTO_INST auto TPUSH(Pipe &pipe, G &, Rest &...) -> detail::enable_if_t<detail::is_global_tensor<G>, RecordEvent> {
    if (Pipe::takes_part())
        pipe.commit();
    return {};
}
template <class Pipe, class G, TileSplitAxis split, class... Rest>
PTO_INST auto TPOP(Pipe &pipe, G &view, Rest &...) -> detail::enable_if_t<detail::is_global_tensor<G>, RecordEvent> {
    if (Pipe::takes_part())
        view.SetAddr((typename G::DType *)(pipe.front() + detail::view_offset<split>(view)));
    return {};
}
template <class Pipe, class G, TileSplitAxis split, class... Rest>
PTO_INST auto TFREE(Pipe &pipe, G &, Rest &...) -> detail::enable_if_t<detail::is_global_tensor<G>, RecordEvent> {
    if (Pipe::takes_part())
        pipe.release();
    return {};
}

} // namespace pto

// Kernels call these with template arguments and without `using namespace pto`, which C++17 reads as comparisons unless
// a template of the name is in sight.
using pto::TALLOC;
using pto::TFREE;
using pto::TPOP;
using pto::TPUSH;

#endif
