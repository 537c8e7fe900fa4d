// Every instruction of one kernel call with the bytes that it read and wrote, flags, barriers, and what variables held,
// for pypto_build.diagnose.why and step.
#pragma once

#include "base/json_writer.h"
#include "pypto/check_abi.h"
#include "pypto/core_context.h"

#include <string>
#include <vector>

namespace pypto::runtime {

class Trace {
public:
    /// Begins `stem`.json, a list of events, and `stem`.bin, their bytes. Throws FaultError naming the path.
    void begin(const std::string &stem);
    // Both are called before the instruction does anything.
    void tiles(const char *instruction, uint32_t pipe, void *address, const PyptoCoreContext &context,
               const PyptoTileAccess *operands, uint32_t count);
    void global(const char *instruction, uint32_t pipe, void *address, const PyptoGlobalAccess &access);
    void order(uint32_t kind, uint32_t from, uint32_t to, uint32_t id, void *address);
    void variable(const char *name, const PyptoCoreContext &context, const PyptoVariable &variable);
    /// Both files appear. Throws FaultError naming the path.
    void write();

private:
    struct Pending {
        const uint8_t *from;
        uint64_t size, at;
    };
    void flush();
    void spill(size_t most);
    void open(const char *kind, const char *instruction, void *address);
    void view(const PyptoGlobalAccess &access);
    void stored(const PyptoGlobalAccess &access);

    JsonWriter events_;
    std::string bytes_;    // those that are not in the file yet,
    uint64_t written_ = 0; // which has this many
    GrowingFile events_file_, bytes_file_;
    std::vector<Pending> pending_;      // what the last instruction writes
    const char *instruction_ = nullptr; // the last one with tiles
};

} // namespace pypto::runtime
