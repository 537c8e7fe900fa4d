// The tensors of a run between their owner and the kernels: outputs poisoned, inputs guarded, results looked over.
#pragma once

#include "execution/kernel_library.h"
#include "pypto/entry_args.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace pypto::runtime {

/// One tensor argument of a run, as its owner passes it: row-major.
struct TensorParameter {
    std::string name;
    uint8_t *address = nullptr;
    uint64_t bytes = 0;
    std::vector<uint32_t> shape;
    DataType dtype = DataType::FLOAT32;
    Direction direction = Direction::In;
    bool read_only = false; // of an input: its memory is never written, it may be a mapped file
};

/// Elements of an output that no task wrote.
struct Unwritten {
    uint32_t tensor;
    uint64_t count;
    std::vector<uint64_t> first; // flat indices
};

/// The first write to a tensor declared IN, or past its end.
struct InputWrite {
    uint32_t tensor;
    uint64_t offset; // bytes; past the end where it is not less than the tensor has
    uint64_t task;   // number, or kNoTask for the orchestration
    std::string kernel;
    bool in_copy; // what changed is a copy, not the owner's tensor
};

class Staging {
public:
    /// Prepares the tensors: poisons OUT; with `protect_inputs` guards IN against writes, in place where a tensor fills
    /// whole pages, else in a copy. One that is read-only and mapped is mapped once more, and copied where it is
    /// written to.
    Staging(const std::vector<TensorParameter> &parameters, bool poison, bool protect_inputs);
    /// Ends the guard.
    ~Staging();
    Staging(const Staging &) = delete;
    Staging &operator=(const Staging &) = delete;

    std::vector<EntryTensor> entry_tensors() const;
    std::vector<Unwritten> unwritten(uint32_t limit) const;
    /// Returns the first write to each input; none where all writes to a copy left the bytes as they were.
    std::vector<InputWrite> input_writes() const;

    const std::vector<TensorParameter> &parameters() const { return parameters_; }

    struct Region {
        uint32_t tensor;
        const char *name;
        uint8_t *base;
        uint64_t bytes;
        bool guarded;
        bool shares; // a second mapping of the owner's memory
    };
    /// Returns the memories of the tensors; read by the signal handler.
    const std::vector<Region> &regions() const { return regions_; }
    /// A write hit a guarded region: remembers the first one and opens the region. False if it is not guarded. Called
    /// from the signal handler.
    bool open_guarded(uint64_t address, uint64_t task, const char *kernel);

private:
    struct Written {
        bool seen = false;
        uint64_t offset = 0;
        uint64_t task = 0;
        char kernel[64] = {};
    };
    uint8_t *copy_of(const TensorParameter &parameter, uint64_t &mapped);
    /// Replaces the part of a shared region that `address` is in by a copy. Called from the signal handler.
    bool copy_part(const Region &region, uint64_t address);
    /// Offset of the first byte that was changed behind the copy of a tensor; 0 if there is none.
    uint64_t overrun(uint32_t index) const;

    std::vector<TensorParameter> parameters_;
    std::vector<Region> regions_;
    std::vector<uint64_t> copies_; // mapped bytes, 0 where the owner's memory is used
    std::vector<Written> written_;
    std::vector<std::vector<bool>> own_parts_; // of shared regions: which parts are copies by now
    std::atomic_flag copying_ = ATOMIC_FLAG_INIT;
    bool poison_;
};

} // namespace pypto::runtime
