// args_dump/: what each task read and wrote, as metadata (args_dump.json) and bytes (args.bin), in simpler's format.
#pragma once

#include "base/json_writer.h"
#include "base/settings.h"
#include "execution/kernel_library.h"
#include "records/dump_selection.h"
#include "records/observers.h"

#include <string>
#include <vector>

namespace pypto::runtime {

/// File and field names of the dump; they changed with the format's name.
struct DumpNames {
    const char *directory;
    const char *json;
    const char *bin;
    const char *items;
    const char *level;
    const char *total;
    const char *suffix; // of the counters of each role
    bool by_kernel;     // an entry for each kernel of a task, by its place and number, and views by the whole's shape
};
/// "args" since 2026-06-18, "tensor" before, since 2026-04-15; null for anything else.
const DumpNames *dump_names(const std::string &format);

class ArgsRecord : public TaskObserver {
public:
    /// Levels: 1 marked arguments, 2 all, 3 all but bytes of marked ones only. Throws FaultError if the directory
    /// cannot be written.
    ArgsRecord(const Settings &settings, const DumpNames &names, const KernelLibrary &kernels);
    ~ArgsRecord() override;

    void ready(const Task &task) override { record(task, Stage::Before); }
    void over(const Task &task) override { record(task, Stage::After); }
    /// Writes the metadata; nothing at all if nothing was recorded.
    void write();
    /// Kernels without a signature whose tasks were labelled by what they declare.
    const std::vector<std::string> &unsigned_kernels() const { return unsigned_; }

private:
    enum class Stage { Before, After };
    enum class Role { Input, Output, InOut };
    struct Entry {
        uint64_t task;
        Stage stage;
        uint32_t arg;
        Role role;
        size_t number; // in the order of recording
        std::string json;
    };

    void record(const Task &task, Stage stage);
    Role role_of(const Task &task, const TaskArgument &argument);
    void add_scalar(JsonWriter &json, DataType dtype, uint64_t value);
    void add_entries(const Task &task, Stage stage, uint32_t slot, Role role, const std::string &fields);
    void add_tensor(JsonWriter &json, const ChipTensor &tensor, bool payload);
    uint64_t append(const ChipTensor &tensor);

    std::string directory_;
    int level_;
    DumpSelection selection_;
    const DumpNames &names_;
    const KernelLibrary &kernels_;
    GrowingFile bin_;
    uint64_t bin_bytes_ = 0;
    std::vector<Entry> entries_;
    std::vector<std::string> unsigned_;
};

} // namespace pypto::runtime
