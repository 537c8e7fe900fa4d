// Communication through shared memory: copies between views of global memory, and signals that are atomic between
// cores.
#ifndef PTO_DETAIL_COMM_HPP
#define PTO_DETAIL_COMM_HPP

#include "../../pypto/comparison.h"
#include "memory.hpp"

namespace pto::comm {

enum class NotifyOp { AtomicAdd, Set };
enum class WaitCmp { EQ, NE, GT, GE, LT, LE };
enum class ReduceOp { Sum, Max, Min };
enum class DmaEngine { SDMA, URMA };

// One signal, and a matrix of them; its rows lie `stride` signals apart.
using Signal = GlobalTensor<int32_t, Shape<1, 1, 1, 1, 1>, Stride<1, 1, 1, 1, 1>>;
template <int Rows, int Cols>
struct Signal2D : GlobalTensor<int32_t, Shape<1, 1, 1, Rows, Cols>, Stride<1, 1, 1, DYNAMIC, 1>> {
    PTO_INLINE Signal2D(int32_t *pointer, int64_t stride = Cols)
        : GlobalTensor<int32_t, Shape<1, 1, 1, Rows, Cols>, Stride<1, 1, 1, DYNAMIC, 1>>(
              pointer, Shape<1, 1, 1, Rows, Cols>(), Stride<1, 1, 1, DYNAMIC, 1>(stride)) {}
};

namespace detail {

using pto::detail::Extent5;

// Calls visit(offset) for every element of a view, in order, until it returns false.
template <class F> PTO_INLINE bool for_each_element(const Extent5 &e, F visit) {
    int64_t i[5] = {};
    for (i[0] = 0; i[0] < e.shape[0]; ++i[0])
        for (i[1] = 0; i[1] < e.shape[1]; ++i[1])
            for (i[2] = 0; i[2] < e.shape[2]; ++i[2])
                for (i[3] = 0; i[3] < e.shape[3]; ++i[3])
                    for (i[4] = 0; i[4] < e.shape[4]; ++i[4])
                        if (!visit(e.offset(i), i))
                            return false;
    return true;
}

template <class T>
PTO_NOINLINE void copy_global(T *to, const Extent5 &te, const T *from, const Extent5 &fe,
                              AtomicType atomic = AtomicType::AtomicNone) {
    using pto::detail::Bits;
    if (te.shape[4] > 0 && te.stride[4] == 1 && fe.stride[4] == 1 && atomic == AtomicType::AtomicNone) {
        Extent5 rows = te; // whole rows at a time
        rows.shape[4] = 1;
        for_each_element(rows, [&](int64_t offset, const int64_t *i) {
            __builtin_memmove((void *)(to + offset), (const void *)(from + fe.offset(i)),
                              uint64_t(te.shape[4]) * sizeof(T));
            return true;
        });
        return;
    }
    for_each_element(te, [&](int64_t offset, const int64_t *i) {
        if (atomic == AtomicType::AtomicAdd)
            pto::detail::atomic_add(to + offset, from[fe.offset(i)]);
        else
            to[offset] = from[fe.offset(i)];
        return true;
    });
}

} // namespace detail

// TPUT(dst, src, staging[, second staging | atomic type]) and TGET(...): dst = src, over the shape of dst.
template <AtomicType atomic = AtomicType::AtomicNone, class D, class S, class Staging, class... Rest>
PTO_INST RecordEvent TPUT(D &dst, S &src, Staging &, Rest &...) {
    PTO_CHECK(TPUT, PIPE_MTE2, loads(src, all, all), stores(dst, all, all, atomic == AtomicType::AtomicAdd));
    detail::copy_global(dst.data(), pto::detail::extent_of(dst), src.data(), pto::detail::extent_of(src), atomic);
    return {};
}
template <class D, class S, class Staging> PTO_INST RecordEvent TPUT(D &dst, S &src, Staging &, AtomicType atomic) {
    PTO_CHECK(TPUT, PIPE_MTE2, loads(src, all, all), stores(dst, all, all, atomic == AtomicType::AtomicAdd));
    detail::copy_global(dst.data(), pto::detail::extent_of(dst), src.data(), pto::detail::extent_of(src), atomic);
    return {};
}
template <class D, class S, class Staging, class... Rest>
PTO_INST RecordEvent TGET(D &dst, S &src, Staging &, Rest &...) {
    PTO_CHECK(TGET, PIPE_MTE2, loads(src, all, all), stores(dst, all, all));
    detail::copy_global(dst.data(), pto::detail::extent_of(dst), src.data(), pto::detail::extent_of(src));
    return {};
}

// TNOTIFY(signal, value, op): sets or adds to every signal of the view; what was written before is visible to who sees
// it.
template <class G, class... Rest> PTO_INST void TNOTIFY(G &signal, int32_t value, NotifyOp op, Rest &...) {
    static_assert(sizeof(typename G::DType) == 4, "TNOTIFY: signals are int32");
    PTO_UNSEEN;
    PTO_CHECK_ORDER(PYPTO_NOTIFY, 0, 0, 0);
    detail::for_each_element(pto::detail::extent_of(signal), [&](int64_t offset, const int64_t *) {
        int32_t *const place = (int32_t *)signal.data() + offset;
        PTO_CHECK_CLEAN(place);
        PyptoCoreContext &core = pto::detail::core();
        if (core.signal_notify)
            core.signal_notify(&core, place, value, op == NotifyOp::Set);
        else if (op == NotifyOp::AtomicAdd)
            __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST);
        else
            __atomic_store_n(place, value, __ATOMIC_SEQ_CST);
        return true;
    });
    PTO_CHECK_ORDER(PYPTO_FENCE, 0, 0, 0);
    PTO_CHECK_ORDER(PYPTO_BARRIER, PIPE_ALL, PIPE_ALL, 1); // its own, and none of the kernel's
}

namespace detail {
// Returns whether it holds for every signal of a view; `place` becomes the first for which it does not.
template <class G> PTO_INLINE bool holds_for_all(G &signal, int32_t value, WaitCmp comparison, const int32_t *&place) {
    return for_each_element(pto::detail::extent_of(signal), [&](int64_t offset, const int64_t *) {
        place = (const int32_t *)signal.data() + offset;
        PTO_CHECK_CLEAN(place);
        return ::pypto::compares(__atomic_load_n(place, __ATOMIC_SEQ_CST), value, uint32_t(comparison));
    });
}

// Waits for each signal of a view, by the runtime where there is more than one chip.
template <class G> PTO_INLINE void wait_for_all(G &signal, int32_t value, uint32_t comparison) {
    PyptoCoreContext &core = pto::detail::core();
    if (core.signal_wait)
        for_each_element(pto::detail::extent_of(signal), [&](int64_t offset, const int64_t *) {
            core.signal_wait(&core, (const int32_t *)signal.data() + offset, value, comparison);
            return true;
        });
}
} // namespace detail

// TTEST(signal, value, comparison): whether it holds for every signal of the view.
template <class G, class... Rest> PTO_INST bool TTEST(G &signal, int32_t value, WaitCmp comparison, Rest &...) {
    static_assert(sizeof(typename G::DType) == 4, "TTEST: signals are int32");
    PTO_UNSEEN;
    PTO_CHECK_ORDER(PYPTO_SIGNAL, 0, 0, 0);
    const int32_t *place = nullptr;
    const bool held = detail::holds_for_all(signal, value, comparison, place);
    if (!held)
        pto::detail::relax(); // who asks again lets the others go on
    else
        detail::wait_for_all(signal, value, PYPTO_SEEN); // returns at once: what was written before is seen
    return held;
}

// TWAIT(signal, value, comparison): until TTEST.
template <class G, class... Rest> PTO_INST void TWAIT(G &signal, int32_t value, WaitCmp comparison, Rest &...) {
    static_assert(sizeof(typename G::DType) == 4, "TWAIT: signals are int32");
    PTO_UNSEEN;
    const int32_t *place = nullptr;
    do {
        detail::wait_for_all(signal, value, uint32_t(comparison));
        if (detail::holds_for_all(signal, value, comparison, place))
            break;
        pto::detail::relax();
    } while (true);
    PTO_CHECK_ORDER(PYPTO_SIGNAL, 0, 0, 0);
}

} // namespace pto::comm

#endif
