// Records what each instruction touches of global memory, and judges whether that is its task's.
#include "checking/check_record.h"
#include "checking/view_runs.h"
#include "data/poison.h"
#include "execution/executor.h"

#include <algorithm>

namespace pypto::runtime {

namespace {

/// Overlapping rows (a broadcast) are one piece from the first byte to the last.
GlobalRuns in_one_piece(GlobalRuns runs) {
    if (static_cast<int64_t>(runs.stride) <= static_cast<int64_t>(runs.length) && runs.rows > 1) {
        if (static_cast<int64_t>(runs.stride) < 0) {
            runs.base += (runs.rows - 1) * runs.stride;
            runs.stride = 0 - runs.stride;
        }
        if (runs.stride <= runs.length) {
            runs.length += (runs.rows - 1) * runs.stride;
            runs.rows = 1;
        }
    }
    runs.stride = runs.rows > 1 ? runs.stride : 0;
    return runs;
}

template <typename Visit> void for_each_run(const PyptoGlobalAccess &access, Visit visit) {
    emit_view(access, [&](uint64_t base, int64_t rows, int64_t stride, int64_t length) {
        visit(in_one_piece(
            {base, static_cast<uint64_t>(rows), static_cast<uint64_t>(stride), static_cast<uint64_t>(length)}));
    });
}

} // namespace

void CoreCheck::global(const char *instruction, uint32_t pipe, const PyptoGlobalAccess &access, void *address) {
    if ((access.access & PYPTO_WRITE) && pipe == kPipeLoads)
        pipe = kPipeStores; // an instruction of two halves: it loads on one pipe and stores on the other
    const uint32_t number = site(instruction, address);
    if (traced_)
        trace_.global(instruction, pipe, address, access);
    for_each_run(access, [&](const GlobalRuns &runs) {
        if (weak_)
            visibility(runs, pipe, number, access.access);
        region(runs, number, access.access);
    });
}

AccessRecord CoreCheck::record(const GlobalRuns &runs, uint32_t site, uint8_t kind) const {
    return {runs.base,
            runs.stride,
            runs.length,
            static_cast<uint32_t>(runs.rows),
            static_cast<uint32_t>(activation_->task->number),
            site,
            activation_->context.block_idx,
            epoch_,
            known_,
            phase_,
            static_cast<uint8_t>(activation_->member),
            kind,
            1};
}

void CoreCheck::region(const GlobalRuns &runs, uint32_t site, uint8_t kind) {
    const AccessRecord next = record(runs, site, kind);
    RankSignals &signals = activation_->executor->signals();
    if (signals.in_window(
            runs.base)) { // of whichever rank: how accesses of several are ordered is looked at afterwards
        window(next, site);
        return;
    }
    const ChipTensor *tensor = check_bounds(next, site);
    if (!checker_.recording())
        return;
    if (tensor != nullptr && kind == PYPTO_READ)
        check_written(next, *tensor, site);
    keep(next, site);
}

void CoreCheck::note_global(const PyptoGlobalAccess &access, const char *instruction, void *address) {
    const uint32_t number = site(instruction, address);
    for_each_run(access, [&](const GlobalRuns &runs) { keep(record(runs, number, access.access), number); });
}

// Adds a record, or makes the last one of its place longer.
void CoreCheck::keep(const AccessRecord &next, uint32_t site) {
    SiteUse &place = places_[sites_[site].address];
    if (place.call == calls_ && continues(records_[place.record], next)) {
        AccessRecord &last = records_[place.record];
        if (next.base == last.base + last.length) {
            last.length += next.length;
        } else {
            last.stride = last.rows == 1 ? next.base - last.base : last.stride;
            last.rows += next.rows;
        }
        ++last.count;
        return;
    }
    place.call = calls_;
    place.record = records_.size();
    records_.push_back(next);
}

// Returns whether `next` continues `last`: columns beside columns, bytes after bytes, or rows below rows.
bool CoreCheck::continues(const AccessRecord &last, const AccessRecord &next) {
    if (last.kind != next.kind || last.epoch != next.epoch || last.phase != next.phase || last.known != next.known)
        return false;
    if (last.rows > 1 && next.rows == last.rows && next.stride == last.stride && next.base == last.base + last.length &&
        last.length + next.length <= last.stride)
        return true;
    if (last.rows == 1 && next.rows == 1 && next.base == last.base + last.length)
        return true;
    if (next.length != last.length)
        return false;
    const uint64_t stride = last.rows > 1 ? last.stride : next.base - last.base;
    return stride > last.length && stride < uint64_t{1} << 40 && (next.rows == 1 || next.stride == stride) &&
           next.base == last.base + last.rows * stride;
}

// The tensor that holds all of a region; none for the slots of pipes.
const ChipTensor *CoreCheck::check_bounds(const AccessRecord &record, uint32_t site) {
    const uint64_t begin = record.base, end = record.base + (record.rows - 1) * record.stride + record.length;
    for (const auto &[low, high] : slots_)
        if (begin >= low && end <= high)
            return nullptr;
    const std::vector<ChipTensor> &tensors = activation_->task->tensors;
    const auto reach = [&](const ChipTensor &t) { return t.buffer.addr + t.buffer.size; };
    for (const ChipTensor &tensor : tensors)
        if (begin >= tensor.buffer.addr && end <= reach(tensor))
            return &tensor;
    const ChipTensor *touched = nullptr; // of several the lowest in memory: the one that the access begins in
    for (const ChipTensor &tensor : tensors)
        if (begin < reach(tensor) && end > tensor.buffer.addr &&
            (!touched || tensor.buffer.addr < touched->buffer.addr))
            touched = &tensor;
    const char *instruction = sites_[site].instruction, *does = record.kind & PYPTO_WRITE ? "writes" : "reads";
    if (!touched)
        fatal("out-of-bounds", site,
              format("%s: %s %llu bytes of global memory that belong to no argument of the task", instruction, does,
                     static_cast<unsigned long long>(end - begin)));
    fatal("out-of-bounds", site,
          format("%s: %s bytes %lld to %lld of tensor argument %zu, whose buffer has %llu bytes", instruction, does,
                 static_cast<long long>(static_cast<int64_t>(begin - touched->buffer.addr)),
                 static_cast<long long>(static_cast<int64_t>(end - touched->buffer.addr)),
                 static_cast<size_t>(touched - tensors.data()), static_cast<unsigned long long>(touched->buffer.size)));
}

// Checks whether a load reads unwritten memory. No harm by itself: the value may stay unused.
void CoreCheck::check_written(const AccessRecord &record, const ChipTensor &tensor, uint32_t site) {
    const uint32_t element = element_bytes(tensor.dtype);
    std::vector<uint64_t> first;
    for (uint32_t row = 0; row < record.rows; ++row) {
        const uint64_t begin = record.base + row * record.stride;
        if (begin % element == 0 &&
            find_poison(reinterpret_cast<const uint8_t *>(begin), record.length / element, tensor.dtype, 0, first) > 0)
            return error("unwritten", site, {});
    }
}

void CoreCheck::acquired(PipeRing &ring, uint32_t id, uint32_t slots, bool producing, uint64_t number,
                         const uint8_t *slot, uint64_t bytes) {
    if (checker_.settings_.instructions)
        return instructions_.slot(true, producing, id, slots);
    const uint64_t low = reinterpret_cast<uint64_t>(slot);
    if (std::find(slots_.begin(), slots_.end(), std::make_pair(low, low + bytes)) == slots_.end())
        slots_.emplace_back(low, low + bytes);
    const std::lock_guard<std::mutex> lock(checker_.mutex_);
    const auto &clocks = producing ? ring.freed_clocks : ring.full_clocks;
    const uint64_t awaited = producing ? number - slots : number;
    if ((producing && number < slots) || awaited >= clocks.size())
        return;
    for (int i = 0; i < kMembers; ++i)
        known_[i] = std::max(known_[i], clocks[awaited][i]);
}

void CoreCheck::advances(PipeRing &ring, uint32_t id, uint32_t slots, bool producing, uint64_t number) {
    if (checker_.settings_.instructions)
        return instructions_.slot(false, producing, id, slots);
    const std::lock_guard<std::mutex> lock(checker_.mutex_);
    auto &clocks = producing ? ring.full_clocks : ring.freed_clocks;
    if (clocks.size() <= number)
        clocks.resize(number + 1);
    for (int i = 0; i < kMembers; ++i)
        clocks[number][i] = std::max(clocks[number][i], i == activation_->member ? epoch_ : known_[i]);
    ++epoch_;
}

} // namespace pypto::runtime
