// Handles a signal in a kernel or the orchestration: the report buffer gets task, kernel, arguments, the
// address and its nearest memory, and the stack; then the process dies of the signal as it would have.
#pragma once

#include "base/fault.h"
#include "data/staging.h"
#include "layouts.h"

#include <cstring>
#include <dlfcn.h>

namespace pypto::runtime {

/// Leaves the fault where it can be read from outside.
void write_fault(FaultRecord &record, const Fault &fault);

/// Position of an address: in, before or past a memory of `bytes` bytes.
struct AddressPlace {
    Nearness nearness = Nearness::Unknown;
    uint64_t distance = 0, bytes = 0;
    char name[96] = ""; // of the memory

    /// Writes it down in a CrashRecord or a HangSample.
    template <typename Record> void copy_to(Record &record) const {
        record.nearness = nearness;
        record.distance = distance;
        record.bytes = bytes;
        std::memcpy(record.nearest, name, sizeof(record.nearest));
    }
};

/// Names the module and the function of a frame.
void name_frame(ReportFrame &frame, const Dl_info &info);

struct Activation;

/// The memory that an address is in or nearest to, while a CrashGuard lives. `activation`, whose task's arguments and
/// on-chip memories are looked at too, may be null.
AddressPlace place_of(uint64_t address, const Activation *activation);

/// Installs the handlers for its own lifetime. One at a time in a process.
class CrashGuard {
public:
    /// `report` may be null: then only guarded inputs are served.
    CrashGuard(Report *report, Staging &staging);
    ~CrashGuard();
    CrashGuard(const CrashGuard &) = delete;
    CrashGuard &operator=(const CrashGuard &) = delete;
};

/// A stack for signal handlers of this thread, so that a stack overflow can be reported too.
class SignalStack {
public:
    SignalStack();
    ~SignalStack();
    SignalStack(const SignalStack &) = delete;
    SignalStack &operator=(const SignalStack &) = delete;

private:
    void *memory_ = nullptr;
};

} // namespace pypto::runtime
