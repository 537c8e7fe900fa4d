// Control, debugging, and what only hardware needs. Forms that the CPU runtime has no counterpart for fail to compile.
#ifndef PTO_DETAIL_SYSTEM_HPP
#define PTO_DETAIL_SYSTEM_HPP

#include <time.h>

#include "elementwise.hpp"
#include "global_index.hpp"

extern "C" int printf(const char *, ...);

namespace cce {
template <class... A> PTO_INLINE void printf(const char *format, A... values) {
    if constexpr (sizeof...(A) == 0)
        ::printf("%s", format);
    else
        ::printf(format, values...);
}
} // namespace cce

/// Ticks of the system's counter: 50 MHz on a2a3, 1 GHz on a5, counted here by this machine's clock.
PTO_INLINE uint64_t get_sys_cnt() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t ns = uint64_t(now.tv_sec) * 1000000000 + uint64_t(now.tv_nsec);
    return PYPTO_ARCH == 2 ? ns / 20 : ns;
}

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
PTO_UNSUPPORTED(SET_IMG2COL_PADDING, "SET_IMG2COL_PADDING: convolution is not supported by the CPU runtime")

PTO_UNSUPPORTED(SET_QUANT_SCALAR,
                "SET_QUANT_SCALAR: pipes that convert are not supported by the CPU runtime; use TMOV with a scale")
PTO_UNSUPPORTED(SET_QUANT_VECTOR,
                "SET_QUANT_VECTOR: pipes that convert are not supported by the CPU runtime; use TMOV_FP")

// Kinds of cores that meet at a SYNCALL.
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
    PTO_UNSEEN;
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
    dst.data() = (detail::ElementType<D> *)src.data() + S::plane().offset(row, col);
    return {};
}

// TPREFETCH(dst, src): a TLOAD that leaves the rest of the tile alone.
template <class D, class G, class... Rest> PTO_INST RecordEvent TPREFETCH(D &dst, const G &src, Rest &...) {
    static_assert(sizeof(typename D::DType) == sizeof(typename G::DType), "TPREFETCH: operands of one element type");
    using B = detail::Bits<typename D::DType>;
    const int64_t rows = dst.GetValidRow(), cols = dst.GetValidCol();
    PTO_CHECK(TPREFETCH, PIPE_MTE2, loads(src, rows, cols), writes(dst));
    detail::load_global((B *)dst.data(), D::plane(), (const B *)src.data(), detail::extent_of(src), rows, cols);
    return {};
}

// TPRINT<format>(tile or global tensor[, tmp]): its extent, then the valid region, a row a line.
namespace detail {
template <class E, class At>
PTO_NOINLINE void print_matrix(int64_t rows, int64_t cols, int width, int precision, At at) {
    ::printf("TPRINT %lldx%lld\n", (long long)rows, (long long)cols);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
            const E value = at(r, c);
            const char end = c + 1 < cols ? ' ' : '\n';
            if constexpr (is_int<E>)
                ::printf(E(-1) < E(0) ? "%*lld%c" : "%*llu%c", width, (long long)value, end);
            else
                ::printf("%*.*f%c", width, precision, double(float(value)), end);
        }
}
} // namespace detail
template <PrintFormat format = PrintFormat::Width8_Precision4, class T, class... Rest>
PTO_INST RecordEvent TPRINT(const T &printed, Rest &...) {
    constexpr int width = format == PrintFormat::Width10_Precision6 ? 10 : 8;
    constexpr int precision = format == PrintFormat::Width10_Precision6  ? 6
                              : format == PrintFormat::Width8_Precision4 ? 4
                                                                         : 2;
    using E = detail::ElementType<T>;
    PTO_UNSEEN;
    PTO_CHECK_ORDER(PYPTO_BARRIER, PIPE_ALL, PIPE_ALL, 0); // it waits for all that went before
    if constexpr (detail::is_tile<T>) {
        PTO_CHECK(TPRINT, PIPE_S, carries(printed, valid(printed)));
        detail::print_matrix<E>(printed.GetValidRow(), printed.GetValidCol(), width, precision,
                                [&](int64_t r, int64_t c) { return printed.data()[T::plane().offset(r, c)]; });
    } else {
        static_assert(detail::is_global_tensor<T>, "TPRINT: only tiles and global tensors can be printed");
        const detail::Extent5 extent = detail::extent_of(printed);
        PTO_CHECK(TPRINT, PIPE_S, loads(printed, all, all));
        detail::print_matrix<E>(
            detail::row_count(extent), detail::col_count(extent), width, precision,
            [&](int64_t r, int64_t c) { return printed.data()[detail::element_offset(extent, r, c)]; });
    }
    return {};
}

} // namespace pto

#endif
