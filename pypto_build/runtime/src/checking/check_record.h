// The checked build's recorder: every access of an instruction to global memory, as regions with task, block, lane and
// place in the code; and the errors of on-chip accesses, which end the task or, when accesses are recorded, are kept.
#pragma once

#include "base/call_set.h"
#include "checking/check_shadow.h"
#include "checking/check_trace.h"
#include "checking/check_trap.h"
#include "checking/instruction_record.h"
#include "checking/weak_memory.h"
#include "execution/core.h"
#include "execution/kernel_library.h"
#include "layouts.h"
#include "records/observers.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace pypto::runtime {

/// "MTE2".
const char *pipe_name(uint32_t pipe);

/// A place in a kernel: the return address of the call that reported it.
struct CheckSite {
    uint64_t address;
    int32_t func_id;
    const char *instruction;
};

/// The subject of an error, besides its source position.
struct CheckSubject {
    uint32_t other_site = ~0u;               // of the earlier access, or of the wait for a flag
    const char *pipe = "", *other_pipe = ""; // which should have waited, and for which
    std::string tile = {};                   // where a tile is that is misplaced: "UB 0x40"
    int flag = -1, other_flag = -1;          // event ids: the one that is wrong, the one in its place
    std::string markers = {};                // of visibility: what is missing there
    bool at_end = false;                     // before the kernel returns, not before the access
    std::string awaited = {};                // the flag that is waited for in vain
};

struct CheckError {
    const char *kind;
    std::string message;
    uint32_t site;
    CheckSubject subject;
    uint64_t task;
    int32_t block;
    int member;
    uint64_t count = 1;
};

/// Elements of an output that still are what they were before the run; the tensor lies at `address`.
struct OutputHole {
    std::string name;
    uint64_t address, bytes, count, first; // first: a flat index
    uint32_t element;                      // bytes
};

/// The operands with which an instruction was executed: space, access, bytes of an element, rows, cols, valid rows,
/// valid cols, and address in the space of each.
struct ExecutedOperands {
    uint32_t site;
    std::vector<int64_t> numbers;
};

class Checker;

/// The records of one core's thread. The kernel's hooks find it through their activation.
class CoreCheck {
public:
    explicit CoreCheck(Checker &checker);

    void begin(Activation &activation);
    /// The kernel has come to its end, and not to a fault.
    void returned();
    void end();
    void tiles(const char *instruction, uint32_t pipe, const PyptoTileAccess *operands, uint32_t count, void *address);
    void global(const char *instruction, uint32_t pipe, const PyptoGlobalAccess &access, void *address);
    void order(uint32_t kind, uint32_t from, uint32_t to, uint32_t id, void *address);
    /// Records a variable's value, for a kernel that was compiled to report it.
    void variable(const char *name, const PyptoVariable &variable);
    // Without judgement.
    void note_global(const PyptoGlobalAccess &access, const char *instruction, void *address);
    Trace &trace() { return trace_; }
    InstructionRecord &instructions() { return instructions_; }
    // With MEMORY=weak.
    void clean(const void *line);
    void hand_over(bool producing);
    void plain(uint64_t place, uint64_t bytes, uint32_t access, void *address);
    /// The run is over: stores that came too late for everybody are there.
    void finish();

    // Slots of pipes between the members of a group.
    void acquired(PipeRing &ring, uint32_t id, uint32_t slots, bool producing, uint64_t number, const uint8_t *slot,
                  uint64_t bytes);
    void advances(PipeRing &ring, uint32_t id, uint32_t slots, bool producing, uint64_t number);
    /// A barrier of all blocks was passed.
    void passed_barrier(uint32_t cores);

private:
    friend class Checker;
    struct SiteUse {
        uint64_t call = 0; // the kernel call that used it last
        size_t record = 0; // of its last access then
        uint32_t number = 0;
    };

    uint32_t site(const char *instruction, void *address);
    void executed(const PyptoTileAccess *operands, uint32_t count, uint32_t site);
    void begin_trace();
    void write_trace();
    void spring();
    void begin_memory();
    void visibility(const GlobalRuns &runs, uint32_t pipe, uint32_t site, uint32_t kind);
    void omission(const Omission &found);
    void order_memory(uint32_t kind);
    std::string argument_bytes(uint64_t begin, uint64_t end) const;
    void read(const PyptoTileAccess &operand, const Runs &runs, uint32_t pipe, uint32_t site);
    void wait(const PyptoTileAccess &operand, const Runs &runs, uint32_t pipe, uint32_t site, bool writes);
    CheckError in_call(const char *kind, uint32_t site, std::string message, CheckSubject subject) const;
    std::string place_of(const PyptoTileAccess &operand) const;
    bool fits(const PyptoTileAccess &operand, const Runs &runs, uint32_t site);
    AccessRecord record(const GlobalRuns &runs, uint32_t site, uint8_t kind) const;
    void region(const GlobalRuns &runs, uint32_t site, uint8_t kind);
    void keep(const AccessRecord &next, uint32_t site);
    void window(const AccessRecord &record, uint32_t site);
    static bool continues(const AccessRecord &last, const AccessRecord &next);
    const ChipTensor *check_bounds(const AccessRecord &record, uint32_t site);
    void check_written(const AccessRecord &record, const ChipTensor &tensor, uint32_t site);
    void error(const char *kind, uint32_t site, std::string message, CheckSubject subject = {});
    /// An error after which going on might end the process, and with it everything recorded; does not return.
    [[noreturn]] void fatal(const char *kind, uint32_t site, std::string message, CheckSubject subject = {});
    Fault fault(uint32_t site, std::string message, uint32_t other_site) const;

    Checker &checker_;
    Activation *activation_ = nullptr;
    Shadow shadow_;
    uint64_t calls_ = 0;
    uint32_t epoch_ = 1;
    std::array<uint32_t, kMembers> known_{};
    uint16_t phase_ = 0;
    bool signals_ = false;
    std::unordered_map<uint64_t, SiteUse> places_;
    std::vector<CheckSite> sites_;
    std::vector<ExecutedOperands> executed_;  // different ones of each site
    std::vector<std::vector<uint64_t>> seen_; // by site: digests of those
    std::vector<AccessRecord> records_;
    std::vector<AccessRecord> late_; // stores that need not be visible in a phase that follows theirs
    std::vector<CheckError> errors_;
    std::vector<CheckError> unordered_; // of this call, errors if the kernel turns out to use flags
    std::vector<std::pair<uint64_t, uint64_t>> slots_;
    Trap trap_;
    uint32_t trap_site_ = ~0u; // of the instruction that is looked at
    std::unique_ptr<WeakMemory> weak_;
    bool overtaken_ = false; // a signal goes out before what was stored
    Trace trace_;            // of this call, where it is traced
    InstructionRecord instructions_;
    bool traced_ = false;
    std::vector<uint32_t> signalling_; // tasks that talk to others through memory
};

class Checker : public OrchestrationObserver {
public:
    /// With `settings.accesses` errors are kept and accesses recorded; without, the first error ends its task.
    Checker(const Platform &platform, const Settings &settings)
        : platform_(platform), settings_(settings), recording_(settings.accesses), traced_(settings.trace) {}

    void edge(const Edge &edge) override;
    void submitted(const Task &task) override;
    void waited(const std::vector<ProducerEdge> &producers, bool and_readers) override;
    bool keeps_history() const override { return settings_.instructions || (recording_ && settings_.judge); }

    bool recording() const { return recording_; }
    bool keeps_operands() const { return recording_ || settings_.operands; }
    /// For the thread of a core, as long as the checker lives.
    CoreCheck *core(int index);

    /// Sets the output bytes that no task has written, once all are over.
    void outputs(std::vector<OutputHole> holes) { holes_ = std::move(holes); }

    /// Everything that was stored late is there.
    void finish();

    /// accesses.json and accesses.bin, or executed.json. Throws FaultError naming the path.
    void write(const std::string &directory, bool complete);

private:
    friend class CoreCheck;
    struct TaskRow {
        uint64_t id, number;
        int32_t kernels[3];
        int32_t block_num;
        bool manual;
        std::vector<TaskArgument> arguments;
        std::vector<ChipTensor> tensors;
        std::vector<std::pair<uint64_t, EdgeSource>> waits;
        size_t host_waits; // that came before
    };

    std::string sites() const;
    std::string executed() const;

    const Platform &platform_;
    const Settings &settings_;
    const bool recording_;
    const CallSet traced_;
    std::mutex mutex_;
    std::map<int, std::unique_ptr<CoreCheck>> cores_;
    std::vector<TaskRow> tasks_;
    std::vector<OutputHole> holes_;
    WaitRecord waits_;
    std::vector<std::pair<uint64_t, EdgeSource>> pending_;
    std::vector<std::pair<std::vector<uint64_t>, bool>> host_waits_;
};

} // namespace pypto::runtime
