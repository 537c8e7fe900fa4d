// The chip's end of a region that its orchestration shares with the host's Python.
//
// Every call returns false if it failed; the first failure stays in error(), and every call after it fails too. This
// machine's caches are coherent: what a counter's store and load order is all that the payload needs.
#ifndef PYPTO_WORKER_CHIP_ORCH_ENDPOINT_H
#define PYPTO_WORKER_CHIP_ORCH_ENDPOINT_H

#include "aicpu/cache_maintenance.h"
#include "common/worker_chip_orch_comm.h"
#include "pypto/comparison.h"
#include "pypto/orchestration_abi.h"

#include <string.h>
#include <time.h>

/// Bytes of the payload, where they lie.
struct WorkerChipOrchPayloadView {
    uint64_t gm_addr;
    uint64_t nbytes;
};

enum class WorkerChipEndpointErrorKind : uint32_t {
    NONE = 0,
    BAD_DESCRIPTOR = 1,
    OUT_OF_BOUNDS = 2,
    SIGNAL_TIMEOUT = 3,
    SIGNAL_PROTOCOL = 4, // an operation or a comparison that there is not
    LOCAL_OPERATION = 5, // the run failed while something was waited for
};

enum class WorkerChipEndpointOp : uint32_t {
    INIT = 1,
    COUNTER_ADDR = 2,
    PAYLOAD_READ = 3,
    PAYLOAD_WRITE = 4,
    SIGNAL_NOTIFY = 5,
    SIGNAL_TEST = 6,
    SIGNAL_WAIT = 7,
};

inline const char *worker_chip_endpoint_op_to_string(WorkerChipEndpointOp op) {
    static constexpr const char *names[] = {"unknown",       "init",          "counter_addr", "payload_read",
                                            "payload_write", "signal_notify", "signal_test",  "signal_wait"};
    const uint32_t number = static_cast<uint32_t>(op);
    return names[number < 8 ? number : 0];
}

struct WorkerChipEndpointError {
    WorkerChipEndpointErrorKind kind;
    WorkerChipEndpointOp op;
    uint64_t region_id;
    uint64_t counter_addr;
    int32_t counter_operand;
    int32_t observed_counter;
    char message[256];
};

namespace pypto {

inline void keep_message(char (&place)[256], const char *message) {
    const size_t size = strnlen(message, sizeof(place) - 1);
    memcpy(place, message, size);
    place[size] = 0;
}

/// The time limit, in nanoseconds, of an orchestration that polls the host's changes; it sleeps between looks.
class Patience {
public:
    explicit Patience(uint64_t timeout_ns) : begun_ns_(now_ns()), timeout_ns_(timeout_ns) {}

    /// Returns whether the run has failed, so that the wait is useless.
    static bool run_failed() { return binding.ops->is_fatal(binding.runtime) != 0; }

    /// Sleeps a moment; false when the time is over or the run has failed.
    bool lasts() {
        if (run_failed() || now_ns() - begun_ns_ >= timeout_ns_)
            return false;
        if (++looks_ < kLooksAtOnce) {
            SPIN_WAIT_HINT();
        } else {
            const timespec moment{0, kMomentNs};
            nanosleep(&moment, nullptr);
        }
        return true;
    }

private:
    static constexpr uint64_t kLooksAtOnce = 64;
    static constexpr long kMomentNs = 20000;

    static uint64_t now_ns() {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
    }

    uint64_t begun_ns_, timeout_ns_, looks_ = 0;
};

} // namespace pypto

class WorkerChipOrchEndpoint {
    using Kind = WorkerChipEndpointErrorKind;
    using Op = WorkerChipEndpointOp;

public:
    explicit WorkerChipOrchEndpoint(const WorkerChipOrchRegionDesc &desc) : desc_(desc) { check_descriptor(); }
    WorkerChipOrchEndpoint(const uint64_t *scalars, size_t count) {
        if (scalars != nullptr && count >= WORKER_CHIP_ORCH_REGION_DESC_SCALAR_COUNT)
            desc_ = {scalars[0], scalars[1], scalars[2], scalars[3], scalars[4], scalars[5]};
        check_descriptor();
    }

    const WorkerChipEndpointError &error() const { return error_; }
    const WorkerChipOrchRegionDesc &descriptor() const { return desc_; }

    /// The address of the counter `offset` bytes after the first.
    bool counter_addr(uint64_t offset, uint64_t &address) {
        address = 0;
        if (!usable())
            return false;
        if (!is_counter(offset))
            return fail(Kind::OUT_OF_BOUNDS, Op::COUNTER_ADDR, "no counter has this offset",
                        desc_.counter_base + offset);
        address = desc_.counter_base + offset;
        return true;
    }
    bool validate_counter_addr(uint64_t address) const { return usable() && is_counter(address - desc_.counter_base); }

    /// A view of the payload: nothing is copied.
    bool payload_read(uint64_t offset, uint64_t nbytes, WorkerChipOrchPayloadView &view) {
        view = {0, 0};
        if (!usable())
            return false;
        if (!pypto::within(offset, nbytes, desc_.payload_bytes))
            return fail(Kind::OUT_OF_BOUNDS, Op::PAYLOAD_READ, "the bytes are not within the payload");
        view = {desc_.payload_base + offset, nbytes};
        return true;
    }
    bool payload_write(uint64_t offset, const void *source, uint64_t nbytes) {
        if (!usable())
            return false;
        if (source == nullptr || !pypto::within(offset, nbytes, desc_.payload_bytes))
            return fail(Kind::OUT_OF_BOUNDS, Op::PAYLOAD_WRITE,
                        source ? "the bytes are not within the payload" : "there is no source");
        memcpy(reinterpret_cast<void *>(desc_.payload_base + offset), source, nbytes);
        return true;
    }

    /// Sets a counter, or adds to it; what was written before is seen by who sees that.
    bool signal_notify(uint64_t address, int32_t value, WorkerChipOrchNotifyOp op) {
        if (!usable(Op::SIGNAL_NOTIFY, address, value))
            return false;
        if (op == WorkerChipOrchNotifyOp::Set)
            __atomic_store_n(counter(address), value, __ATOMIC_SEQ_CST);
        else if (op == WorkerChipOrchNotifyOp::Add)
            __atomic_fetch_add(counter(address), value, __ATOMIC_SEQ_CST);
        else
            return fail(Kind::SIGNAL_PROTOCOL, Op::SIGNAL_NOTIFY, "there is no such operation", address, value);
        return true;
    }
    /// One look at a counter; a value that does not match is no failure.
    bool signal_test(uint64_t address, int32_t expected, WorkerChipOrchWaitCmp comparison,
                     WorkerChipOrchSignalTestResult &result) {
        result = {false, 0};
        return look(Op::SIGNAL_TEST, address, expected, comparison, result);
    }
    /// Looks until the counter matches, at most `timeout_ns`; `observed` is what it was at last.
    bool signal_wait(uint64_t address, int32_t expected, WorkerChipOrchWaitCmp comparison, uint64_t timeout_ns,
                     int32_t &observed) {
        pypto::Patience patience(timeout_ns);
        WorkerChipOrchSignalTestResult result{false, 0};
        observed = 0;
        while (look(Op::SIGNAL_WAIT, address, expected, comparison, result)) {
            observed = result.observed;
            if (result.matched)
                return true;
            if (patience.lasts())
                continue;
            const bool failed = pypto::Patience::run_failed();
            return fail(failed ? Kind::LOCAL_OPERATION : Kind::SIGNAL_TIMEOUT, Op::SIGNAL_WAIT,
                        failed ? "the run has failed" : "the host did not answer in time", address, expected, observed);
        }
        return false;
    }

private:
    static int32_t *counter(uint64_t address) { return reinterpret_cast<int32_t *>(address); }
    bool usable() const { return error_.kind == Kind::NONE; }
    bool usable(Op op, uint64_t address, int32_t operand) {
        if (!usable())
            return false;
        return is_counter(address - desc_.counter_base) ||
               fail(Kind::OUT_OF_BOUNDS, op, "no counter has this address", address, operand);
    }
    bool is_counter(uint64_t offset) const {
        return offset % WORKER_CHIP_ORCH_COMM_COUNTER_BYTES == 0 &&
               pypto::within(offset, WORKER_CHIP_ORCH_COMM_COUNTER_BYTES, desc_.counter_bytes);
    }

    void check_descriptor() {
        if (worker_chip_orch_comm_validate_desc(desc_) != WorkerChipOrchCommValidationError::OK)
            fail(Kind::BAD_DESCRIPTOR, Op::INIT, "the scalars describe no region");
    }
    bool look(Op op, uint64_t address, int32_t expected, WorkerChipOrchWaitCmp comparison,
              WorkerChipOrchSignalTestResult &result) {
        if (!usable(op, address, expected))
            return false;
        if (comparison > WorkerChipOrchWaitCmp::LE)
            return fail(Kind::SIGNAL_PROTOCOL, op, "there is no such comparison", address, expected);
        result.observed = __atomic_load_n(counter(address), __ATOMIC_SEQ_CST);
        result.matched = pypto::compares(result.observed, expected, static_cast<uint32_t>(comparison));
        return true;
    }
    bool fail(Kind kind, Op op, const char *message, uint64_t address = 0, int32_t operand = 0, int32_t observed = 0) {
        error_ = {kind, op, desc_.region_id, address, operand, observed, {}};
        pypto::keep_message(error_.message, message);
        return false;
    }

    WorkerChipOrchRegionDesc desc_{};
    WorkerChipEndpointError error_{};
};

#endif
