// Collectives and asynchronous transfers. The memory of all ranks is shared here, so that they are copies. A collective
// is complete when the instruction is; an asynchronous transfer is done as late as it may be, when its event is waited
// for or its session ends, so that what does not wait for it does not see it.
#ifndef PTO_DETAIL_COLLECTIVE_HPP
#define PTO_DETAIL_COLLECTIVE_HPP

#include "comm.hpp"

namespace pto::comm {

enum class CollEngine { AIV, CCU };

namespace sdma {
constexpr uint32_t UB_ALIGN_SIZE = 256; // bytes of the scratch tile
// The split of transfers into blocks and queues; there are no queues here.
struct SdmaBaseConfig {
    uint64_t block_bytes;
    uint64_t comm_block_offset;
    uint32_t queue_num;
};
} // namespace sdma

// The views of one tensor in the memory of each rank.
template <class G> struct ParallelGroup {
    using value_type = G;
    G *tensors = nullptr;
    int nranks = 0, rootIdx = -1;

    constexpr ParallelGroup() = default;
    constexpr ParallelGroup(G *views, int size, int root) : tensors(views), nranks(size), rootIdx(root) {}
    static constexpr ParallelGroup Create(G *views, int size, int root) { return {views, size, root}; }
    constexpr int GetRootIdx() const { return rootIdx; }
    constexpr int GetSize() const { return nranks; }
    constexpr bool empty() const { return nranks == 0; }
    constexpr G &operator[](int rank) const { return tensors[rank]; }
};

class AsyncSession;

// The transfer that was started as number `number` of its session; 0 is one that is complete.
struct AsyncEvent {
    uint64_t number = 0;
    bool Wait(const AsyncSession &session) const;
    bool Test(const AsyncSession &session) const { return Wait(session); }
};

// The transfers that were started and not waited for, in their order.
class AsyncSession {
public:
    AsyncSession() = default;
    AsyncSession(const AsyncSession &) {} // has transfers of its own
    AsyncSession &operator=(const AsyncSession &) { return *this; }
    ~AsyncSession() { finish(started_); }

    template <class D, class S> AsyncEvent start(const D &dst, const S &src, void (*copy)(D &, S &)) const {
        static_assert(__is_trivially_copyable(D) && __is_trivially_copyable(S), "views of global memory are copied");
        static_assert(sizeof(D) <= kRoom && sizeof(S) <= kRoom, "views of global memory are small");
        if (started_ - finished_ == kMost)
            finish(finished_ + 1);
        Pending &slot = pending_[started_++ % kMost];
        __builtin_memcpy(slot.views, (const void *)&dst, sizeof(D));
        __builtin_memcpy(slot.views + kRoom, (const void *)&src, sizeof(S));
        slot.copy = (void (*)())copy;
        slot.run = [](Pending &one) {
            D &to = *(D *)one.views;
            S &from = *(S *)(one.views + kRoom);
            ((void (*)(D &, S &))one.copy)(to, from);
        };
        return {started_};
    }
    // Completes all transfers up to number `last`.
    void finish(uint64_t last) const {
        while (finished_ < last && finished_ < started_) {
            Pending &slot = pending_[finished_++ % kMost];
            slot.run(slot);
        }
    }

private:
    static constexpr uint64_t kMost = 16, kRoom = 128;
    struct Pending {
        alignas(16) unsigned char views[2 * kRoom];
        void (*copy)();
        void (*run)(Pending &);
    };
    mutable Pending pending_[kMost];
    mutable uint64_t started_ = 0, finished_ = 0;
};
PTO_INLINE bool AsyncEvent::Wait(const AsyncSession &session) const {
    session.finish(number);
    return true;
}
template <DmaEngine engine = DmaEngine::SDMA, class Scratch, class... Rest>
PTO_INLINE bool BuildAsyncSession(Scratch &, uint8_t *, AsyncSession &, const Rest &...) {
    return true;
}

namespace detail {

using pto::detail::extent_of;

// The rows of one rank within a tensor that has those of all ranks one below the other.
template <class Whole, class Part> PTO_INLINE Extent5 rank_rows(const Whole &whole, const Part &part) {
    const Extent5 shape = extent_of(part);
    Extent5 rows = extent_of(whole);
    for (int d = 0; d < 5; ++d)
        rows.shape[d] = shape.shape[d];
    return rows;
}

template <class T> PTO_INLINE T reduced(T a, T b, ReduceOp op) {
    using pto::detail::from_compute;
    using pto::detail::to_compute;
    const auto x = to_compute(a), y = to_compute(b);
    if constexpr (pto::detail::is_int<T>) {
        if (op == ReduceOp::Sum)
            return T(uint64_t(x) + uint64_t(y)); // wraps
    } else {
        if (op == ReduceOp::Sum)
            return from_compute<T>(x + y);
    }
    return (op == ReduceOp::Max ? y > x : y < x) ? b : a;
}

} // namespace detail

// TBROADCAST(group, src, stage[, stage]): src to every rank.
template <CollEngine engine = CollEngine::AIV, class G, class S, class Stage, class... Rest>
PTO_INST RecordEvent TBROADCAST(ParallelGroup<G> &group, S &src, Stage &, Rest &...) {
    static_assert(engine == CollEngine::AIV, "TBROADCAST: only vector cores carry out collectives on the CPU");
    for (int rank = 0; rank < group.GetSize(); ++rank) {
        G &dst = group[rank];
        PTO_CHECK(TBROADCAST, PIPE_MTE2, loads(src, all, all), stores(dst, all, all));
        detail::copy_global(dst.data(), detail::rank_rows(dst, src), src.data(), detail::extent_of(src));
    }
    return {};
}

// TGATHER(group, dst, stage[, stage]): the rows of all ranks, one below the other.
template <CollEngine engine = CollEngine::AIV, class G, class D, class Stage, class... Rest>
PTO_INST RecordEvent TGATHER(ParallelGroup<G> &group, D &dst, Stage &, Rest &...) {
    static_assert(engine == CollEngine::AIV, "TGATHER: only vector cores carry out collectives on the CPU");
    for (int rank = 0; rank < group.GetSize(); ++rank) {
        const G &src = group[rank];
        PTO_CHECK(TGATHER, PIPE_MTE2, loads(src, all, all), rank_part(dst, src, rank, PYPTO_WRITE));
        detail::copy_global(dst.data() + rank * src.GetShape(3) * dst.GetStride(3), detail::rank_rows(dst, src),
                            src.data(), detail::extent_of(src));
    }
    return {};
}

// TSCATTER(group, src, stage[, stage]): its rows to the ranks, the opposite of TGATHER.
template <CollEngine engine = CollEngine::AIV, class G, class S, class Stage, class... Rest>
PTO_INST RecordEvent TSCATTER(ParallelGroup<G> &group, S &src, Stage &, Rest &...) {
    static_assert(engine == CollEngine::AIV, "TSCATTER: only vector cores carry out collectives on the CPU");
    for (int rank = 0; rank < group.GetSize(); ++rank) {
        G &dst = group[rank];
        PTO_CHECK(TSCATTER, PIPE_MTE2, rank_part(src, dst, rank, PYPTO_READ), stores(dst, all, all));
        detail::copy_global(dst.data(), detail::extent_of(dst), src.data() + rank * dst.GetShape(3) * src.GetStride(3),
                            detail::rank_rows(src, dst));
    }
    return {};
}

// TREDUCE(group, dst, accumulator, stage[, stage], op): in the order of the ranks, each step in the element type.
template <CollEngine engine = CollEngine::AIV, class G, class D, class A, class Stage, class... Rest>
PTO_INST RecordEvent TREDUCE(ParallelGroup<G> &group, D &dst, A &, Stage &, ReduceOp op, Rest &...) {
    static_assert(engine == CollEngine::AIV, "TREDUCE: only vector cores carry out collectives on the CPU");
    if (group.empty())
        return {};
    PTO_UNSEEN;
    PTO_CHECK(TREDUCE, PIPE_MTE3, stores(dst, all, all));
    for (int rank = 0; rank < group.GetSize(); ++rank) {
        const G &src = group[rank];
        PTO_CHECK(TREDUCE, PIPE_MTE2, loads(src, all, all));
        const detail::Extent5 from = detail::extent_of(src);
        detail::for_each_element(detail::rank_rows(dst, src), [&](int64_t offset, const int64_t *i) {
            auto &place = dst.data()[offset];
            const auto value = src.data()[from.offset(i)];
            place = rank ? detail::reduced(place, value, op) : value;
            return true;
        });
    }
    return {};
}
template <CollEngine engine = CollEngine::AIV, class G, class D, class A, class Stage, class... Rest>
PTO_INST RecordEvent TREDUCE(ParallelGroup<G> &group, D &dst, A &accumulator, Stage &ping, Stage &, ReduceOp op,
                             Rest &...) {
    return TREDUCE<engine>(group, dst, accumulator, ping, op);
}

// TPUT_ASYNC and TGET_ASYNC(dst, src, session[, peer]).
template <DmaEngine engine = DmaEngine::SDMA, class D, class S, class... Rest>
PTO_INST AsyncEvent TPUT_ASYNC(D &dst, S &src, const AsyncSession &session, const Rest &...) {
    return session.start<D, S>(dst, src, [](D &to, S &from) {
        PTO_CHECK(TPUT_ASYNC, PIPE_MTE3, loads(from, all, all), stores(to, all, all));
        detail::copy_global(to.data(), detail::extent_of(to), from.data(), detail::extent_of(from));
    });
}
template <DmaEngine engine = DmaEngine::SDMA, class D, class S, class... Rest>
PTO_INST AsyncEvent TGET_ASYNC(D &dst, S &src, const AsyncSession &session, const Rest &...) {
    return session.start<D, S>(dst, src, [](D &to, S &from) {
        PTO_CHECK(TGET_ASYNC, PIPE_MTE2, loads(from, all, all), stores(to, all, all));
        detail::copy_global(to.data(), detail::extent_of(to), from.data(), detail::extent_of(from));
    });
}

} // namespace pto::comm

namespace pto {

class PrefetchAsyncContext {
public:
    PrefetchAsyncContext() = default;
    explicit PrefetchAsyncContext(uint8_t *) {}
    PrefetchAsyncContext(uint8_t *, comm::AsyncSession &session) : session_(&session) {}
    comm::AsyncSession &GetSession() { return session_ ? *session_ : own_; }

private:
    comm::AsyncSession own_, *session_ = nullptr;
};

// TPREFETCH_ASYNC(src, context) warms a cache that the CPU keeps itself.
template <class G, class... Rest> PTO_INST comm::AsyncEvent TPREFETCH_ASYNC(G &, PrefetchAsyncContext &, Rest &...) {
    return {};
}

} // namespace pto

#endif
