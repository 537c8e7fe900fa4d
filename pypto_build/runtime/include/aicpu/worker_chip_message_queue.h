// The chip's end of a queue of messages, one in each direction, between its orchestration and the host's Python.
//
// A queue lies in the payload of a region: a ring of descriptors for each direction, then an arena for each direction's
// messages. A message lies in one piece; where it does not fit before an arena's end it begins at the arena's start, so
// both sides know from the sizes alone where each one lies. Counters are the heads and tails of the rings.
//
// A call that returns false either made no progress, or failed: error() tells. The first error stays, and tells the
// host's end by a counter that this one has given up.
#ifndef PYPTO_WORKER_CHIP_MESSAGE_QUEUE_H
#define PYPTO_WORKER_CHIP_MESSAGE_QUEUE_H

#include "aicpu/worker_chip_orch_endpoint.h"

inline constexpr uint32_t WORKER_CHIP_QUEUE_MAGIC = 0x4C335132u;
inline constexpr uint16_t WORKER_CHIP_QUEUE_ABI_MAJOR = 1;
inline constexpr uint16_t WORKER_CHIP_QUEUE_ABI_MINOR = 1;
inline constexpr uint64_t WORKER_CHIP_QUEUE_DESC_SLOT_BYTES = 32;
inline constexpr uint64_t WORKER_CHIP_QUEUE_PAYLOAD_ARENA_ALIGNMENT = 64;
inline constexpr uint64_t WORKER_CHIP_QUEUE_COUNTER_STRIDE = 64;
inline constexpr uint64_t WORKER_CHIP_QUEUE_INPUT_DESC_TAIL_OFFSET = 0;
inline constexpr uint64_t WORKER_CHIP_QUEUE_INPUT_DESC_HEAD_OFFSET = 64;
inline constexpr uint64_t WORKER_CHIP_QUEUE_OUTPUT_DESC_TAIL_OFFSET = 128;
inline constexpr uint64_t WORKER_CHIP_QUEUE_OUTPUT_DESC_HEAD_OFFSET = 192;
inline constexpr uint64_t WORKER_CHIP_QUEUE_WORKER_ABORT_FLAG_OFFSET = 256;
inline constexpr uint64_t WORKER_CHIP_QUEUE_CHIP_ABORT_FLAG_OFFSET = 320;
inline constexpr uint64_t WORKER_CHIP_QUEUE_COUNTER_BYTES = 384;
inline constexpr uint64_t WORKER_CHIP_QUEUE_MAX_DEPTH = 1ull << 30;
inline constexpr uint64_t WORKER_CHIP_QUEUE_MAGIC_VERSION = worker_chip_orch_comm_pack_magic_version(
    WORKER_CHIP_QUEUE_MAGIC, WORKER_CHIP_QUEUE_ABI_MAJOR, WORKER_CHIP_QUEUE_ABI_MINOR);

/// One entry of a ring. `seq` counts messages from 1 on; `payload_offset` is from the beginning of the payload.
struct WorkerChipQueueDescSlot {
    uint64_t seq;
    uint64_t opcode;
    uint64_t payload_offset;
    uint64_t payload_nbytes;
};
static_assert(sizeof(WorkerChipQueueDescSlot) == WORKER_CHIP_QUEUE_DESC_SLOT_BYTES, "its layout is fixed");

enum class WorkerChipQueueOpcode : uint64_t { INVALID = 0, DATA = 1, STOP = 2, ERROR = 3 };

enum class WorkerChipQueueErrorKind : uint32_t {
    NONE = 0,
    BAD_ARGUMENT = 1,
    BAD_DESCRIPTOR = 2,     // the scalars describe no queue
    INVALID_DESCRIPTOR = 3, // an entry of a ring or a counter makes no sense
    OUT_OF_SPACE = 4,
    OWNERSHIP = 5, // what is given back was not taken
    REMOTE_ABORTED = 6,
    ENDPOINT_ERROR = 7,
};

enum class WorkerChipQueueTimeoutStatus : uint32_t { ORDINARY_TIMEOUT = 0, REMOTE_ABORTED = 1 };

enum class WorkerChipQueueOp : uint32_t {
    INIT = 1,
    TIMEOUT = 2,
    INPUT_TRY_PEEK = 3,
    INPUT_RELEASE = 4,
    OUTPUT_TRY_RESERVE = 5,
    OUTPUT_PUBLISH = 6,
};

inline const char *worker_chip_queue_op_to_string(WorkerChipQueueOp op) {
    static constexpr const char *names[] = {
        "unknown", "init", "timeout", "input.try_peek", "input.release", "output.try_reserve", "output.publish"};
    const uint32_t number = static_cast<uint32_t>(op);
    return names[number < 7 ? number : 0];
}

struct WorkerChipQueueError {
    WorkerChipQueueErrorKind kind;
    WorkerChipQueueOp op;
    uint64_t region_id;
    char message[256];
};

/// Offsets of the parts of a queue, in bytes from the beginning of the payload, and of the counters.
struct WorkerChipQueueLayout {
    uint64_t depth;
    uint64_t input_desc_offset;
    uint64_t output_desc_offset;
    uint64_t input_arena_offset;
    uint64_t output_arena_offset;
    uint64_t input_arena_bytes;
    uint64_t output_arena_bytes;
    uint64_t payload_bytes;
    uint64_t input_desc_tail_offset;
    uint64_t input_desc_head_offset;
    uint64_t output_desc_tail_offset;
    uint64_t output_desc_head_offset;
    uint64_t worker_abort_flag_offset;
    uint64_t chip_abort_flag_offset;
    uint64_t counter_bytes;
};

/// The host's description of a queue, in the order of its scalars.
struct WorkerChipQueueArgs {
    uint64_t magic_version;
    uint64_t depth;
    uint64_t input_arena_bytes;
    uint64_t output_arena_bytes;
    uint64_t payload_bytes;
    uint64_t counter_bytes;
};

/// A message of the host's, until it is released.
struct WorkerChipQueueInputHandle {
    uint64_t seq;
    WorkerChipQueueOpcode opcode;
    uint64_t payload_offset;
    uint64_t payload_nbytes;
    WorkerChipOrchPayloadView payload;
};

/// Room for a message to the host, until it is published.
struct WorkerChipQueueOutputReservation {
    uint64_t seq;
    uint64_t payload_offset;
    uint64_t payload_nbytes;
    WorkerChipOrchPayloadView payload;
    bool valid;
};

/// The layout of a queue. False for a depth that is no power of two and for arenas that are no multiples of 64 bytes.
inline bool worker_chip_queue_make_layout(uint64_t depth, uint64_t input_arena_bytes, uint64_t output_arena_bytes,
                                          WorkerChipQueueLayout &layout) {
    const auto is_arena = [](uint64_t nbytes) {
        return nbytes != 0 && nbytes % WORKER_CHIP_QUEUE_PAYLOAD_ARENA_ALIGNMENT == 0;
    };
    if (depth == 0 || (depth & (depth - 1)) != 0 || depth > WORKER_CHIP_QUEUE_MAX_DEPTH ||
        !is_arena(input_arena_bytes) || !is_arena(output_arena_bytes))
        return false;
    const uint64_t ring_bytes = depth * WORKER_CHIP_QUEUE_DESC_SLOT_BYTES; // two of them are a multiple of 64
    const uint64_t input_arena = 2 * ring_bytes;
    if (input_arena_bytes > UINT64_MAX - input_arena ||
        output_arena_bytes > UINT64_MAX - input_arena - input_arena_bytes)
        return false;
    const uint64_t output_arena = input_arena + input_arena_bytes;
    layout = {depth,
              0,
              ring_bytes,
              input_arena,
              output_arena,
              input_arena_bytes,
              output_arena_bytes,
              output_arena + output_arena_bytes,
              WORKER_CHIP_QUEUE_INPUT_DESC_TAIL_OFFSET,
              WORKER_CHIP_QUEUE_INPUT_DESC_HEAD_OFFSET,
              WORKER_CHIP_QUEUE_OUTPUT_DESC_TAIL_OFFSET,
              WORKER_CHIP_QUEUE_OUTPUT_DESC_HEAD_OFFSET,
              WORKER_CHIP_QUEUE_WORKER_ABORT_FLAG_OFFSET,
              WORKER_CHIP_QUEUE_CHIP_ABORT_FLAG_OFFSET,
              WORKER_CHIP_QUEUE_COUNTER_BYTES};
    return true;
}

namespace pypto {

/// Positions of messages of one direction. A cursor counts all bytes ever taken, also those skipped at an end.
struct QueueArena {
    uint64_t offset, nbytes;

    /// The cursor of a message of `size` bytes, the next one after `cursor`.
    uint64_t start(uint64_t cursor, uint64_t size) const {
        const uint64_t left = nbytes - cursor % nbytes;
        return size > left ? cursor + left : cursor;
    }
    uint64_t place(uint64_t cursor) const { return offset + cursor % nbytes; }
};

/// The common state of both directions: the region, the layout, the error.
class QueueState {
    using Kind = WorkerChipQueueErrorKind;
    using Op = WorkerChipQueueOp;

public:
    QueueState(const WorkerChipOrchRegionDesc &desc, const WorkerChipQueueArgs &args, uint64_t window)
        : endpoint(desc) {
        const bool fits =
            endpoint.error().kind == WorkerChipEndpointErrorKind::NONE &&
            args.magic_version == WORKER_CHIP_QUEUE_MAGIC_VERSION &&
            worker_chip_queue_make_layout(args.depth, args.input_arena_bytes, args.output_arena_bytes, layout) &&
            args.payload_bytes == layout.payload_bytes && args.counter_bytes == layout.counter_bytes &&
            desc.payload_bytes == layout.payload_bytes && desc.counter_bytes == layout.counter_bytes;
        if (!fits)
            set_error(Kind::BAD_DESCRIPTOR, Op::INIT, "the scalars describe no queue");
        else if (window > layout.depth)
            set_error(Kind::BAD_ARGUMENT, Op::INIT, "the window is larger than the queue is deep");
    }

    bool live() const { return error.kind == Kind::NONE; }
    bool set_error(Kind kind, Op op, const char *message) {
        if (live()) {
            error = {kind, op, endpoint.descriptor().region_id, {}};
            keep_message(error.message, message);
        }
        return false;
    }
    /// The queue cannot be used any more, and the host is told so.
    bool give_up(Kind kind, Op op, const char *message) {
        set_error(kind, op, message);
        endpoint.signal_notify(address(layout.chip_abort_flag_offset), 1, WorkerChipOrchNotifyOp::Set);
        return false;
    }

    /// Takes over what the host did to a head or tail, of which a counter has the lower half.
    bool refresh(uint64_t counter, uint64_t &value, Op op) {
        WorkerChipOrchSignalTestResult seen{};
        if (!endpoint.signal_test(address(counter), 0, WorkerChipOrchWaitCmp::EQ, seen))
            return give_up(Kind::ENDPOINT_ERROR, op, endpoint.error().message);
        const uint32_t more = static_cast<uint32_t>(seen.observed) - static_cast<uint32_t>(value);
        if (more > layout.depth)
            return give_up(Kind::INVALID_DESCRIPTOR, op, "a counter went back, or too far");
        value += more;
        return true;
    }
    bool tell(uint64_t counter, uint64_t value, Op op) {
        return endpoint.signal_notify(address(counter), static_cast<int32_t>(value), WorkerChipOrchNotifyOp::Set) ||
               give_up(Kind::ENDPOINT_ERROR, op, endpoint.error().message);
    }

    /// The entry of a ring for the message after `count` others.
    WorkerChipQueueDescSlot *slot(uint64_t ring, uint64_t count) const {
        const uint64_t place = ring + (count & (layout.depth - 1)) * sizeof(WorkerChipQueueDescSlot);
        return reinterpret_cast<WorkerChipQueueDescSlot *>(endpoint.descriptor().payload_base + place);
    }
    WorkerChipOrchPayloadView view(uint64_t offset, uint64_t nbytes) const {
        return nbytes ? WorkerChipOrchPayloadView{endpoint.descriptor().payload_base + offset, nbytes}
                      : WorkerChipOrchPayloadView{0, 0};
    }

    /// Calls `attempt` until it is true, there is an error or the time is over.
    template <typename Attempt> bool within_time(uint64_t timeout_ns, Attempt attempt) {
        Patience patience(timeout_ns);
        while (!attempt()) {
            if (!live())
                return false;
            if (patience.lasts())
                continue;
            if (Patience::run_failed())
                return give_up(Kind::ENDPOINT_ERROR, Op::TIMEOUT, "the run has failed");
            after_timeout();
            return false;
        }
        return true;
    }
    WorkerChipQueueTimeoutStatus after_timeout() {
        WorkerChipOrchSignalTestResult seen{};
        if (live() &&
            !endpoint.signal_test(address(layout.worker_abort_flag_offset), 1, WorkerChipOrchWaitCmp::GE, seen))
            give_up(Kind::ENDPOINT_ERROR, Op::TIMEOUT, endpoint.error().message);
        if (seen.matched)
            set_error(Kind::REMOTE_ABORTED, Op::TIMEOUT, "the host has given up");
        return error.kind == Kind::REMOTE_ABORTED ? WorkerChipQueueTimeoutStatus::REMOTE_ABORTED
                                                  : WorkerChipQueueTimeoutStatus::ORDINARY_TIMEOUT;
    }

    WorkerChipOrchEndpoint endpoint;
    WorkerChipQueueLayout layout{};
    WorkerChipQueueError error{};

private:
    uint64_t address(uint64_t counter) const { return endpoint.descriptor().counter_base + counter; }
};

inline bool same(const WorkerChipQueueInputHandle &one, const WorkerChipQueueInputHandle &other) {
    return one.seq == other.seq && one.opcode == other.opcode && one.payload_offset == other.payload_offset &&
           one.payload_nbytes == other.payload_nbytes && one.payload.gm_addr == other.payload.gm_addr &&
           one.payload.nbytes == other.payload.nbytes;
}

/// Messages from the host, at most `Window` of them held at a time, and the stop message.
template <uint64_t Window> class QueueInput {
    using Kind = WorkerChipQueueErrorKind;
    using Op = WorkerChipQueueOp;
    using Handle = WorkerChipQueueInputHandle;

public:
    explicit QueueInput(QueueState &state)
        : state_(state), arena_{state.layout.input_arena_offset, state.layout.input_arena_bytes} {}
    QueueInput(const QueueInput &) = delete;
    QueueInput &operator=(const QueueInput &) = delete;

    /// The next message, at most `timeout_ns` from now.
    bool peek(uint64_t timeout_ns, Handle &message) {
        return state_.within_time(timeout_ns, [&] { return try_peek(message); });
    }
    bool try_peek(Handle &message) {
        message = {};
        if (!state_.live())
            return false;
        if (Window == 1 && taken_ != head_)
            return state_.give_up(Kind::OWNERSHIP, Op::INPUT_TRY_PEEK, "the message before is not released");
        if (!state_.refresh(state_.layout.input_desc_tail_offset, tail_, Op::INPUT_TRY_PEEK))
            return false;
        if (stopped_)
            return nothing_after_stop();
        if (tail_ == taken_)
            return false;
        const WorkerChipQueueDescSlot slot = *state_.slot(state_.layout.input_desc_offset, taken_);
        if (const char *wrong = what_is_wrong(slot))
            return state_.give_up(Kind::INVALID_DESCRIPTOR, Op::INPUT_TRY_PEEK, wrong);
        const auto opcode = static_cast<WorkerChipQueueOpcode>(slot.opcode);
        stopped_ = opcode == WorkerChipQueueOpcode::STOP;
        if (!stopped_ && taken_ - head_ >= Window)
            return false;
        return take(slot, opcode, message);
    }

    /// The message is not needed any more. The host gets its room back when those before it are released too.
    bool release(const Handle &message) {
        if (!state_.live())
            return false;
        Entry &entry = entries_[message.seq % kEntries];
        if (message.seq <= head_ || message.seq > taken_ || !same(entry.message, message))
            return state_.give_up(Kind::OWNERSHIP, Op::INPUT_RELEASE, "this message is not held");
        if (entry.released)
            return state_.give_up(Kind::OWNERSHIP, Op::INPUT_RELEASE, "this message was released before");
        entry.released = true;
        const uint64_t before = head_;
        while (head_ != taken_ && entries_[(head_ + 1) % kEntries].released)
            ++head_;
        drained_ = stopped_ && head_ == taken_;
        return head_ == before || state_.tell(state_.layout.input_desc_head_offset, head_, Op::INPUT_RELEASE);
    }
    /// Returns whether the stop message is released, with all before it.
    bool drained() const { return drained_; }

private:
    struct Entry {
        Handle message;
        bool released;
    };
    static constexpr uint64_t kEntries = Window + 1;

    const char *what_is_wrong(const WorkerChipQueueDescSlot &slot) const {
        if (slot.seq != taken_ + 1)
            return "a descriptor has another number than is next";
        if (slot.opcode < 1 || slot.opcode > 3)
            return "a descriptor has no opcode that there is";
        if (slot.opcode == static_cast<uint64_t>(WorkerChipQueueOpcode::STOP) && slot.payload_nbytes != 0)
            return "STOP has a payload";
        const uint64_t place = slot.payload_nbytes ? arena_.place(arena_.start(cursor_, slot.payload_nbytes)) : 0;
        if (slot.payload_nbytes > arena_.nbytes || slot.payload_offset != place)
            return "a payload lies elsewhere than it should";
        return nullptr;
    }
    bool nothing_after_stop() {
        return tail_ != taken_ &&
               state_.give_up(Kind::INVALID_DESCRIPTOR, Op::INPUT_TRY_PEEK, "a message came after STOP");
    }
    bool take(const WorkerChipQueueDescSlot &slot, WorkerChipQueueOpcode opcode, Handle &message) {
        if (slot.payload_nbytes)
            cursor_ = arena_.start(cursor_, slot.payload_nbytes) + slot.payload_nbytes;
        ++taken_;
        message = {slot.seq, opcode, slot.payload_offset, slot.payload_nbytes,
                   state_.view(slot.payload_offset, slot.payload_nbytes)};
        entries_[slot.seq % kEntries] = {message, false};
        if (stopped_)
            nothing_after_stop();
        return state_.live();
    }

    QueueState &state_;
    const QueueArena arena_;
    Entry entries_[kEntries]{};
    uint64_t head_ = 0, taken_ = 0, tail_ = 0; // released, handed out, sent
    uint64_t cursor_ = 0;                      // after what was handed out
    bool stopped_ = false, drained_ = false;
};

/// Messages to the host, one being written at a time.
class QueueOutput {
    using Kind = WorkerChipQueueErrorKind;
    using Op = WorkerChipQueueOp;
    using Reservation = WorkerChipQueueOutputReservation;

public:
    explicit QueueOutput(QueueState &state)
        : state_(state), arena_{state.layout.output_arena_offset, state.layout.output_arena_bytes} {}
    QueueOutput(const QueueOutput &) = delete;
    QueueOutput &operator=(const QueueOutput &) = delete;

    /// Room for a message, at most `timeout_ns` from now.
    bool reserve(uint64_t nbytes, uint64_t timeout_ns, Reservation &room) {
        return state_.within_time(timeout_ns, [&] { return try_reserve(nbytes, room); });
    }
    bool try_reserve(uint64_t nbytes, Reservation &room) {
        room = {};
        if (!state_.live())
            return false;
        if (reserved_.valid)
            return state_.give_up(Kind::OWNERSHIP, Op::OUTPUT_TRY_RESERVE, "the room before is not published");
        if (nbytes > arena_.nbytes || !take_back() || tail_ - head_ >= state_.layout.depth)
            return false;
        const uint64_t start = nbytes ? arena_.start(cursor_, nbytes) : cursor_;
        const uint64_t in_use = head_ == tail_ ? 0 : start - released_;
        if (in_use + nbytes > arena_.nbytes)
            return false;
        const uint64_t offset = nbytes ? arena_.place(start) : 0;
        cursor_ = start + nbytes;
        room = reserved_ = {tail_ + 1, offset, nbytes, state_.view(offset, nbytes), true};
        return true;
    }

    /// Sends the message that was written to the room.
    bool publish(const Reservation &room, WorkerChipQueueOpcode opcode) {
        if (!state_.live())
            return false;
        if (!reserved_.valid || !room.valid || room.seq != reserved_.seq ||
            room.payload_offset != reserved_.payload_offset || room.payload_nbytes != reserved_.payload_nbytes)
            return state_.give_up(Kind::OWNERSHIP, Op::OUTPUT_PUBLISH, "this room is not reserved");
        if (opcode != WorkerChipQueueOpcode::DATA && opcode != WorkerChipQueueOpcode::ERROR)
            return state_.give_up(Kind::INVALID_DESCRIPTOR, Op::OUTPUT_PUBLISH, "a chip sends DATA or ERROR");
        *state_.slot(state_.layout.output_desc_offset, tail_) = {room.seq, static_cast<uint64_t>(opcode),
                                                                 room.payload_offset, room.payload_nbytes};
        ++tail_;
        reserved_ = {};
        return state_.tell(state_.layout.output_desc_tail_offset, tail_, Op::OUTPUT_PUBLISH);
    }

private:
    /// Takes over how many messages the host has released, and their bytes.
    bool take_back() {
        uint64_t head = head_;
        if (!state_.refresh(state_.layout.output_desc_head_offset, head, Op::OUTPUT_TRY_RESERVE))
            return false;
        if (head > tail_)
            return state_.give_up(Kind::INVALID_DESCRIPTOR, Op::OUTPUT_TRY_RESERVE,
                                  "the host released what was not sent");
        for (; head_ != head; ++head_)
            if (const uint64_t nbytes = state_.slot(state_.layout.output_desc_offset, head_)->payload_nbytes)
                released_ = arena_.start(released_, nbytes) + nbytes;
        return true;
    }

    QueueState &state_;
    const QueueArena arena_;
    uint64_t head_ = 0, tail_ = 0;       // released by the host, sent
    uint64_t released_ = 0, cursor_ = 0; // the same in bytes
    Reservation reserved_{};
};

} // namespace pypto

/// A queue between the host and this orchestration, which holds at most `MaxInflight` of the host's messages at a time.
template <uint64_t MaxInflight = 1> class WorkerChipQueueEndpoint {
    static_assert(MaxInflight > 0, "an orchestration holds at least one message at a time");

public:
    using InputQueue = pypto::QueueInput<MaxInflight>;
    using OutputQueue = pypto::QueueOutput;

    WorkerChipQueueEndpoint(const WorkerChipOrchRegionDesc &desc, const WorkerChipQueueArgs &args)
        : state_(desc, args, MaxInflight), input_(state_), output_(state_) {}
    WorkerChipQueueEndpoint(const WorkerChipQueueEndpoint &) = delete;
    WorkerChipQueueEndpoint &operator=(const WorkerChipQueueEndpoint &) = delete;

    const WorkerChipQueueError &error() const { return state_.error; }
    const WorkerChipQueueLayout &layout() const { return state_.layout; }
    InputQueue &input() { return input_; }
    OutputQueue &output() { return output_; }
    /// After a wait that was in vain: whether the host has given up.
    WorkerChipQueueTimeoutStatus disambiguate_timeout() { return state_.after_timeout(); }

private:
    pypto::QueueState state_;
    InputQueue input_;
    OutputQueue output_;
};

#endif
