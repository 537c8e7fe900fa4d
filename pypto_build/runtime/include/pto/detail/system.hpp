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

// Explicit flags between the cube core and the vector cores of a group. A flag is a ring without data, each way:
// setting it fills a slot, waiting for it takes one. Hardware counts to 15.
namespace pto::detail {
inline constexpr uint32_t kFirstFlag = 1u << 16; // ids of rings, above those of pipes
/// `lane` is 0 for both vector cores, else the number of one, from 1.
PTO_INLINE PyptoPipe *flag_ring(uint32_t id, uint32_t lane) {
    const PyptoPipeSpec spec{kFirstFlag + id, 1, 15, DIR_BOTH, 0, lane};
    return core().pipe_open(&core(), &spec);
}
PTO_INLINE void set_ring(PyptoPipe *ring) {
    PTO_CHECK_ORDER(PYPTO_BARRIER, PIPE_ALL, PIPE_ALL, 0);
    core().pipe_acquire(&core(), ring, !core().is_vector);
    core().pipe_commit(&core(), ring, !core().is_vector);
}
PTO_INLINE void await_ring(PyptoPipe *ring) {
    core().pipe_front(&core(), ring, int(core().is_vector));
    core().pipe_release(&core(), ring, int(core().is_vector));
    PTO_CHECK_ORDER(PYPTO_BARRIER, PIPE_ALL, PIPE_ALL, 0);
}
/// The ring of a5: the cube core adds 16 to the flags of the second vector core.
PTO_INLINE PyptoPipe *lane_ring(uint32_t id) {
    return flag_ring(id % 16, 1 + (core().is_vector ? uint32_t(core().sub_block) : id / 16));
}
} // namespace pto::detail

#define FFTS_MODE_VAL 0x2
namespace pto {
PTO_INLINE uint16_t getFFTSMsg(uint16_t mode, uint16_t flag, uint16_t base = 1) {
    return uint16_t((base & 15) + ((mode & 3) << 4) + ((flag & 15) << 8));
}
} // namespace pto
PTO_INLINE void ffts_cross_core_sync(pipe_t, uint64_t message) {
    if ((message >> 4 & 3) != 2)
        pto::detail::fault("ffts_cross_core_sync: only mode 2, cube against vector cores, is supported; use SYNCALL");
    pto::detail::set_ring(pto::detail::flag_ring(uint32_t(message >> 8 & 15), 0));
}
PTO_INLINE void wait_flag_dev(int64_t flag) {
    pto::detail::await_ring(pto::detail::flag_ring(uint32_t(flag), 0));
}
PTO_INLINE void set_intra_block(pipe_t, uint64_t flag) {
    pto::detail::set_ring(pto::detail::lane_ring(uint32_t(flag)));
}
PTO_INLINE void wait_intra_block(pipe_t, uint64_t flag) {
    pto::detail::await_ring(pto::detail::lane_ring(uint32_t(flag)));
}

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
