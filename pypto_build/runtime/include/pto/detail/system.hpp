// Control, debugging, and what only hardware needs. Forms that the CPU runtime has no counterpart for fail to compile.
#ifndef PTO_DETAIL_SYSTEM_HPP
#define PTO_DETAIL_SYSTEM_HPP

#include "elementwise.hpp"
#include "memory.hpp"

extern "C" int printf(const char *, ...);

namespace cce {
template <class... A> PTO_INLINE void printf(const char *format, A... values) {
    if constexpr (sizeof...(A) == 0)
        ::printf("%s", format);
    else
        ::printf(format, values...);
}
} // namespace cce

[[noreturn]] PTO_INLINE void trap() {
    pto::detail::fault("the kernel called trap()");
}

// The second form takes calls whose first template argument is a value.
#define PTO_UNSUPPORTED(NAME, message)                                                                                 \
    template <class... A> void NAME(A...) {                                                                            \
        static_assert(pto::detail::always_false<A...>, message);                                                       \
    }                                                                                                                  \
    template <auto, auto..., class... A> void NAME(A...) {                                                             \
        static_assert(pto::detail::always_false<A...>, message);                                                       \
    }
PTO_UNSUPPORTED(ffts_cross_core_sync,
                "ffts_cross_core_sync: explicit flags between cores are not supported; use TPUSH and TPOP")
PTO_UNSUPPORTED(wait_flag_dev, "wait_flag_dev: explicit flags between cores are not supported; use TPUSH and TPOP")
PTO_UNSUPPORTED(set_intra_block, "set_intra_block: explicit flags between cores are not supported; use TPUSH and TPOP")
PTO_UNSUPPORTED(wait_intra_block,
                "wait_intra_block: explicit flags between cores are not supported; use TPUSH and TPOP")

namespace pto {

PTO_UNSUPPORTED(TIMG2COL, "TIMG2COL: convolution is not supported by the CPU runtime")
PTO_UNSUPPORTED(TMATMUL_MX, "TMATMUL_MX: microscaled matrix multiplication is not supported by the CPU runtime")
PTO_UNSUPPORTED(TGEMV_MX, "TGEMV_MX: microscaled matrix multiplication is not supported by the CPU runtime")

PTO_UNSUPPORTED(TGET_SCALE_ADDR,
                "TGET_SCALE_ADDR: microscaled matrix multiplication is not supported by the CPU runtime")
PTO_UNSUPPORTED(SETFMATRIX, "SETFMATRIX: convolution is not supported by the CPU runtime")
PTO_UNSUPPORTED(SET_IMG2COL_RPT, "SET_IMG2COL_RPT: convolution is not supported by the CPU runtime")
PTO_UNSUPPORTED(TADDDEQRELU, "TADDDEQRELU: not supported by the CPU runtime; use TADD, TCVT and TRELU")
PTO_UNSUPPORTED(TADDRELUCONV, "TADDRELUCONV: not supported by the CPU runtime; use TADDRELU and TCVT")
PTO_UNSUPPORTED(TSUBRELUCONV, "TSUBRELUCONV: not supported by the CPU runtime; use TSUBRELU and TCVT")

// Which cores meet at a SYNCALL.
enum class SyncCoreType { AIVOnly, AICOnly, Mix };
enum class SyncAllMode { Hard, Soft };

// SYNCALL<cores>(): every block of the task reaches this point before any goes on.
template <SyncCoreType cores = SyncCoreType::AIVOnly> PTO_INST void SYNCALL() {
    PyptoCoreContext &core = detail::core();
    if (core.sync_all)
        core.sync_all(&core, uint32_t(cores));
    else if (core.block_num > 1)
        detail::fault("SYNCALL: this runtime has no barrier between the blocks of a task");
}
// With a counter in global memory, which the runtime's own barrier makes unnecessary unless only some of the cores
// meet.
template <SyncAllMode mode, SyncCoreType cores = SyncCoreType::AIVOnly, class G>
PTO_INST void SYNCALL(G &workspace, int32_t used_cores = 0) {
    if (mode == SyncAllMode::Hard || used_cores <= 0)
        return SYNCALL<cores>();
    int32_t *const counter = (int32_t *)workspace.data();
    const int32_t arrived = __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
    const int32_t release = (arrived / used_cores + 1) * used_cores;
    while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < release)
        detail::relax();
}

// TSUBVIEW(dst, src, row, col): dst becomes the part of src that starts there.
template <class D, class S, class... Rest>
PTO_INST RecordEvent TSUBVIEW(D &dst, const S &src, int64_t row, int64_t col, Rest &...) {
    static_assert(D::Loc == S::Loc, "TSUBVIEW: both tiles are in one memory");
    dst.data() = (typename D::DType *)src.data() + S::plane.offset(row, col);
    return {};
}

// TPREFETCH(dst, src): a TLOAD that leaves the rest of the tile alone.
template <class D, class G, class... Rest> PTO_INST RecordEvent TPREFETCH(D &dst, const G &src, Rest &...) {
    static_assert(sizeof(typename D::DType) == sizeof(typename G::DType), "TPREFETCH: operands of one element type");
    using B = detail::Bits<typename D::DType>;
    const int64_t rows = dst.GetValidRow(), cols = dst.GetValidCol();
    PTO_CHECK(TPREFETCH, PIPE_MTE2, loads(src, rows, cols), writes(dst));
    detail::load_global((B *)dst.data(), D::plane, (const B *)src.data(), detail::extent_of(src), rows, cols);
    return {};
}

// TPRINT<format>(tile): the valid region, a row a line.
template <PrintFormat format = PrintFormat::Width8_Precision4, class T, class... Rest>
PTO_INST RecordEvent TPRINT(const T &tile, Rest &...) {
    static_assert(detail::is_tile<T>, "TPRINT: only tiles can be printed");
    constexpr int width = format == PrintFormat::Width10_Precision6 ? 10 : 8;
    constexpr int precision = format == PrintFormat::Width10_Precision6  ? 6
                              : format == PrintFormat::Width8_Precision4 ? 4
                                                                         : 2;
    using E = detail::remove_cv_t<typename T::DType>;
    for (int64_t r = 0; r < tile.GetValidRow(); ++r)
        for (int64_t c = 0; c < tile.GetValidCol(); ++c)
            ::printf("%*.*f%c", width, detail::is_int<E> ? 0 : precision,
                     double(detail::to_compute(E(tile.data()[T::plane.offset(r, c)]))),
                     c + 1 < tile.GetValidCol() ? ' ' : '\n');
    return {};
}

} // namespace pto

#endif
