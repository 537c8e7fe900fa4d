// Every instruction of all kernel calls with its operands, flags, barriers and slots of pipes, without values, for
// pypto_build.diagnose.speed. Equal instructions are one row, and equal sequences of them one stream.
#pragma once

#include "checking/wait_record.h"
#include "pypto/check_abi.h"
#include "pypto/core_context.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace pypto::runtime {

/// Events beside those of PyptoOrderKind.
enum InstructionEvent : uint8_t {
    kInstruction = 100,
    kSlotAcquired, // a producer has a free slot of a pipe, or a consumer a full one
    kSlotPassed,   // a producer has filled a slot, or a consumer has freed one
    kMet,          // all blocks have met at a SYNCALL
};

/// The instructions of one core.
class InstructionRecord {
public:
    struct Call {
        uint32_t task, block, member, kernel, stream, bases;
    };

    void begin();
    void tiles(const char *name, uint32_t pipe, void *address, const PyptoCoreContext &context,
               const PyptoTileAccess *operands, uint32_t count);
    void global(const char *name, uint32_t pipe, void *address, const PyptoGlobalAccess &access);
    void order(uint32_t kind, uint32_t from, uint32_t to, uint32_t id, void *address);
    void slot(bool acquired, bool producing, uint32_t ring, uint32_t slots);
    void met(uint32_t cores);
    void end(Call call);

private:
    friend class InstructionFile;
    /// The event of a row before its operands.
    struct Head {
        uint64_t address; // in the code
        const char *name;
        uint32_t kind, pipe, to, id, tiles, views;
    };
    void open(const Head &head);
    void put(const void *bytes, size_t size) { row_.append(static_cast<const char *>(bytes), size); }
    void close();

    std::unordered_map<std::string, uint32_t> rows_, streams_;
    std::string row_; // of the event that is not over yet: its head, tiles and views
    std::vector<uint32_t> stream_;
    std::vector<uint64_t> bases_; // of all calls: of each view of global memory, in order
    size_t call_bases_ = 0;
    std::vector<Call> calls_;
};

/// The records of all cores as instructions.json and instructions.bin.
class InstructionFile {
public:
    void add(const InstructionRecord &core);
    /// Throws FaultError naming the path.
    void write(const std::string &directory, const WaitRecord &waits, bool complete) const;

private:
    std::unordered_map<std::string, uint32_t> rows_, streams_;
    std::vector<InstructionRecord::Call> calls_;
    std::vector<uint64_t> bases_;
};

} // namespace pypto::runtime
