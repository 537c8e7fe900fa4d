// Synchronization. Instructions complete in program order here, so what orders pipelines within a core is empty; what
// orders a core against others is a fence.
#ifndef PTO_DETAIL_SYNC_HPP
#define PTO_DETAIL_SYNC_HPP

#include "check.hpp"
#include "enums.hpp"
#include "macros.hpp"

PTO_INLINE void set_flag([[maybe_unused]] pipe_t from, [[maybe_unused]] pipe_t to, [[maybe_unused]] event_t id) {
    PTO_CHECK_ORDER(PYPTO_SET_FLAG, from, to, uint32_t(id));
}
PTO_INLINE void wait_flag([[maybe_unused]] pipe_t from, [[maybe_unused]] pipe_t to, [[maybe_unused]] event_t id) {
    PTO_CHECK_ORDER(PYPTO_WAIT_FLAG, from, to, uint32_t(id));
}
PTO_INLINE void pipe_barrier([[maybe_unused]] pipe_t pipe) {
    PTO_CHECK_ORDER(PYPTO_BARRIER, pipe, pipe, 0);
}
// The owner of a buffer: taken by the checked build to order everything.
template <class... A> PTO_INLINE void get_buf(A...) {
    PTO_CHECK_ORDER(PYPTO_BARRIER, PIPE_ALL, PIPE_ALL, 0);
}
template <class... A> PTO_INLINE void rls_buf(A...) {
    PTO_CHECK_ORDER(PYPTO_BARRIER, PIPE_ALL, PIPE_ALL, 0);
}
PTO_INLINE void set_mask_norm() {}
PTO_INLINE void set_mask_count() {}
template <class... A> PTO_INLINE void set_vector_mask(A...) {}
template <class... A> PTO_INLINE void set_ffts_base_addr(A...) {}
PTO_INLINE void set_atomic_none() {}
PTO_INLINE int64_t get_ctrl() {
    return 0;
}
PTO_INLINE void set_ctrl(int64_t) {}
PTO_INLINE int64_t sbitset0(int64_t value, int64_t bit) {
    return value & ~(int64_t(1) << bit);
}
PTO_INLINE int64_t sbitset1(int64_t value, int64_t bit) {
    return value | (int64_t(1) << bit);
}

// Older kernels bring their own namespace cache_line_t, typedef mem_dsb_t, dcci() and dsb() for hosts. Names found
// through a using-directive, and templates, give way to those.
namespace pto::detail::cache_lines {
constexpr int SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE = 1, CACHELINE_OUT = 2;
}
namespace cache_line_t {
using namespace pto::detail::cache_lines;
}
namespace dcci_dst_t {
using namespace pto::detail::cache_lines;
}
using namespace pto::detail::cache_lines; // some kernels write the names without a scope
typedef int mem_dsb_t;
constexpr int DSB_ALL = 0, DSB_DDR = 1, DSB_UB = 2;
template <class Kind> PTO_INLINE void dsb([[maybe_unused]] Kind kind) {
    PTO_CHECK_ORDER(PYPTO_FENCE, 0, 0, uint32_t(kind));
    PTO_FENCE();
}
template <class Pointer, class Line, class... A>
PTO_INLINE void dcci([[maybe_unused]] Pointer address, [[maybe_unused]] Line line, A...) {
    PTO_CHECK_CLEAN(line == Line(pto::detail::cache_lines::ENTIRE_DATA_CACHE) ? nullptr : (const void *)address);
    PTO_FENCE();
}

namespace pto {

// Names of instructions as Event and TSYNC take them.
enum class Op {
    TLOAD,
    TSTORE,
    TMOV,
    TEXTRACT,
    TINSERT,
    TMATMUL,
    TADD,
    TSUB,
    TMUL,
    TDIV,
    TCVT,
    VECTOR,
    SCALAR,
    CUBE,
    OP_COUNT
};
struct RecordEvent {};
template <Op From, Op To> struct Event {
    Event() = default;
    Event(RecordEvent) {}
    Event &operator=(RecordEvent) { return *this; }
    void Wait() const {}
    void Record() const {}
};
// TSYNC(events...) and TSYNC<instructions...>(): what they wait for is complete on the CPU.
template <class... A> PTO_INST void TSYNC(const A &...) {
    PTO_CHECK_ORDER(PYPTO_BARRIER, PIPE_ALL, PIPE_ALL, 0);
}
template <Op...> PTO_INST void TSYNC() {
    PTO_CHECK_ORDER(PYPTO_BARRIER, PIPE_ALL, PIPE_ALL, 0);
}

} // namespace pto

#endif
