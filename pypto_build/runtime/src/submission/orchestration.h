// A loaded orchestration and how its entry is called.
#pragma once

#include "pypto/entry_args.h"

#include <functional>
#include <string>
#include <vector>

namespace pypto::runtime {

/// The parameters of a run, as each generation of entries takes them.
struct EntryParameters {
    std::vector<EntryTensor> tensors;
    std::vector<uint64_t> scalars;
    std::vector<uint64_t> words;     // in declaration order: addresses and scalars
    std::vector<EntryArg> arguments; // the same as objects
    bool one_list = false;           // the entry takes tensors and scalars in one list

    /// `order`: 't' and 's' in declaration order, '-' for a parameter that is never read; empty means tensors first.
    /// Throws FaultError if it does not fit.
    void arrange(const std::string &order);
    /// Tensors and scalars apart.
    EntryArgs objects() const;
};

class Orchestration {
public:
    /// Throws FaultError: file that cannot be loaded, missing function, other ABI.
    void load(const std::string &path, const std::string &function_name, const std::string &config_name);
    bool loaded() const { return entry_ != nullptr; }

    void bind(PTO2Runtime *runtime, const Operations *operations) const;
    /// Number of arguments the configuration asks for; 0 if it does not say.
    int expected_args(const EntryParameters &parameters) const;
    /// Calls the entry. An entry that lists a graph returns a status; anything but 0 is a failure. Others give 0.
    int call(PTO2Runtime *runtime, const EntryParameters &parameters) const;

private:
    enum class Variant { Objects, Words, WordsWithRuntime, Array };
    Variant variant_ = Variant::Objects;
    bool builds_graph_ = false;
    void *entry_ = nullptr;
    void *config_ = nullptr;
    void *bind_ = nullptr;
    std::string path_;
};

} // namespace pypto::runtime
