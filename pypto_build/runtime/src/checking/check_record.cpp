// Judges each access of a checked kernel, and records those of global memory.
#include "checking/check_record.h"
#include "checking/source_line.h"
#include "checking/view_runs.h"
#include "data/poison.h"
#include "execution/executor.h"

#include <algorithm>
#include <cstring>

namespace pypto::runtime {

namespace {

constexpr const char *kSpaces[] = {"UB", "L1", "L0A", "L0B", "L0C", "BIAS", "FBUF", "SCALE_A", "SCALE_B"};
constexpr const char *kPipeNames[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "ALL", "MTE4", "MTE5", "V2", "FIX"};
constexpr int64_t kAlignment = 32;

long long as_long(int64_t value) {
    return static_cast<long long>(value);
}

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

CoreCheck &recorder_of(PyptoCoreContext *context) {
    return *static_cast<Activation *>(context->runtime)->check;
}

void hook_tiles(PyptoCoreContext *context, const char *instruction, uint32_t pipe, const PyptoTileAccess *operands,
                uint32_t count) {
    recorder_of(context).tiles(instruction, pipe, operands, count, __builtin_return_address(0));
}
void hook_global(PyptoCoreContext *context, const char *instruction, uint32_t pipe, const PyptoGlobalAccess *access) {
    recorder_of(context).global(instruction, pipe, *access, __builtin_return_address(0));
}
void hook_order(PyptoCoreContext *context, uint32_t kind, uint32_t from, uint32_t to, uint32_t id) {
    recorder_of(context).order(kind, from, to, id, __builtin_return_address(0));
}
void hook_variable(PyptoCoreContext *context, const char *name, const PyptoVariable *variable) {
    recorder_of(context).variable(name, *variable);
}
void hook_clean(PyptoCoreContext *context, const void *line) {
    recorder_of(context).clean(line);
}
void hook_plain(PyptoCoreContext *context, const void *place, uint64_t bytes, uint32_t access, void *code) {
    recorder_of(context).plain(reinterpret_cast<uint64_t>(place), bytes, access, code);
}
constexpr PyptoCheck kHooks{hook_tiles, hook_global, hook_order, hook_variable, hook_clean, hook_plain};

} // namespace

const char *pipe_name(uint32_t pipe) {
    return pipe < kPipes ? kPipeNames[pipe] : "?";
}

// --- one core ---

CoreCheck::CoreCheck(Checker &checker)
    : checker_(checker), shadow_(checker.platform_.vector_barriers), trap_(checker.settings_.trap) {
    if (!checker.settings_.memory.empty())
        weak_ = std::make_unique<WeakMemory>(!checker.recording_, checker.settings_.seed);
}

void CoreCheck::begin(Activation &activation) {
    activation_ = &activation;
    activation.check = this;
    activation.context.check = &kHooks;
    ++calls_;
    epoch_ = 1;
    known_ = {};
    phase_ = 0;
    signals_ = false;
    slots_.clear();
    trap_site_ = ~0u;
    const Settings &settings = checker_.settings_;
    traced_ = static_cast<int64_t>(activation.task->number) == settings.trace_task &&
              (settings.trace_block < 0 || activation.context.block_idx == settings.trace_block);
    if (traced_)
        trace_.begin();
    unordered_.clear();
    shadow_.begin(activation.context);
    if (weak_)
        begin_memory();
}

// The instruction before is over: ends the run if it made what the trap is set for.
void CoreCheck::spring() {
    const uint32_t number = trap_site_;
    trap_site_ = ~0u;
    const std::string made = number == ~0u ? std::string() : trap_.after();
    if (!made.empty())
        fatal("trap", number, made);
}

void CoreCheck::write_trace() {
    const std::string &directory = checker_.settings_.output_dir;
    try {
        trace_.write(format("%s/trace.%d.%d", directory.c_str(), activation_->context.block_idx, activation_->member));
    } catch (const FaultError &error) {
        activation_->executor->report_fault(*activation_, error.fault);
    }
}

void CoreCheck::end() {
    if (shadow_.uses_flags() && !unordered_.empty()) {
        const CheckError &first = unordered_.front();
        if (!checker_.recording())
            activation_->executor->report_fault(*activation_,
                                                fault(first.site, first.message, first.subject.other_site));
        else
            for (const CheckError &found : unordered_)
                error(found.kind, found.site, found.message, found.subject);
    }
    if (traced_)
        write_trace();
    if (signals_)
        signalling_.push_back(static_cast<uint32_t>(activation_->task->number));
    activation_->check = nullptr;
    activation_ = nullptr;
}

uint32_t CoreCheck::site(const char *instruction, void *address) {
    const auto [place, fresh] = places_.try_emplace(reinterpret_cast<uint64_t>(address));
    if (fresh) {
        place->second.number = static_cast<uint32_t>(sites_.size());
        sites_.push_back({reinterpret_cast<uint64_t>(address), activation_->kernel->func_id, instruction});
    }
    return place->second.number;
}

Fault CoreCheck::fault(uint32_t site, std::string message, uint32_t other_site) const {
    const auto line = [&](uint32_t number) {
        return number == ~0u ? std::string() : source_line(reinterpret_cast<const void *>(sites_[number].address));
    };
    return Fault(FaultKind::CheckFailed,
                 {{"text", std::move(message)}, {"line_text", line(site)}, {"written_at", line(other_site)}});
}

void CoreCheck::error(const char *kind, uint32_t site, std::string message, CheckSubject subject) {
    if (!checker_.recording())
        activation_->executor->end_with_fault(*activation_, fault(site, std::move(message), subject.other_site));
    for (CheckError &known : errors_)
        if (known.site == site && known.subject.other_site == subject.other_site &&
            std::strcmp(known.kind, kind) == 0) {
            ++known.count;
            return;
        }
    errors_.push_back({kind, std::move(message), site, std::move(subject), activation_->task->number,
                       activation_->context.block_idx, activation_->member});
}

void CoreCheck::fatal(const char *kind, uint32_t site, std::string message, CheckSubject subject) {
    error(kind, site, message, std::move(subject));
    activation_->executor->end_with_fault(*activation_, fault(site, std::move(message), ~0u));
}

// "UB 0x40".
std::string CoreCheck::place_of(const PyptoTileAccess &a) const {
    return format("%s 0x%llx", kSpaces[a.space],
                  static_cast<unsigned long long>(static_cast<const uint8_t *>(a.base) -
                                                  activation_->context.memory[a.space].base));
}

// Whether the operand is a tile at all, and inside what it says it is inside of.
bool CoreCheck::fits(const PyptoTileAccess &a, const Runs &runs, uint32_t site) {
    const char *name = sites_[site].instruction;
    const PyptoMemory &memory = activation_->context.memory[a.space];
    const int64_t at = static_cast<const uint8_t *>(a.base) - memory.base;
    const auto tile = [&] { return format("%s: the %dx%d tile at %s", name, a.rows, a.cols, place_of(a).c_str()); };
    if (a.base == nullptr)
        fatal("unplaced", site, format("%s: a tile has no address", name));
    if (a.row < 0 || a.col < 0 || a.row + a.height > a.rows || a.col + a.width > a.cols) {
        error("outside-tile", site,
              format("%s is accessed at rows %d to %d, columns %d to %d", tile().c_str(), a.row, a.row + a.height - 1,
                     a.col, a.col + a.width - 1));
        return false;
    }
    if (at < 0 || static_cast<uint64_t>(at) >= memory.size)
        return false; // another memory's: an address that the kernel computed from a tile's own
    const int64_t end = at + runs.start + (runs.count - 1) * runs.stride + runs.length;
    if (static_cast<uint64_t>(end) > memory.size)
        fatal("capacity", site,
              format("%s is accessed up to 0x%llx, %s ends at 0x%llx", tile().c_str(),
                     static_cast<unsigned long long>(end), kSpaces[a.space],
                     static_cast<unsigned long long>(memory.size)),
              {~0u, "", "", place_of(a)});
    if (at % kAlignment != 0)
        error("misaligned", site, format("%s is not aligned to %lld bytes", tile().c_str(), as_long(kAlignment)),
              {~0u, "", "", place_of(a)});
    return true;
}

void CoreCheck::read(const PyptoTileAccess &a, const Runs &runs, uint32_t pipe, uint32_t site) {
    bool any = false;
    const int64_t missing = shadow_.first_unwritten(a.space, runs, any);
    if (missing >= 0 && (!(a.access & PYPTO_CARRY) || !any)) {
        error("never-written", site,
              format("%s: reads %s at %s 0x%llx of the %dx%d tile at 0x%llx, which nothing in this kernel has written",
                     sites_[site].instruction, any ? "bytes" : "a tile", kSpaces[a.space],
                     static_cast<unsigned long long>(missing), a.rows, a.cols,
                     static_cast<unsigned long long>(static_cast<const uint8_t *>(a.base) -
                                                     activation_->context.memory[a.space].base)));
        shadow_.write(a.space, {pipe, 0, site, 0, runs, false}); // one error, however often it is read again
    }
    ShadowAccess *const scratch = a.access & PYPTO_CARRY ? nullptr : shadow_.scratch(a.space, runs);
    if (scratch) {
        error("scratch", site,
              format("%s reads the %dx%d tile at %s, in which %s has worked since it was written: a scratch tile holds "
                     "nothing afterwards",
                     sites_[site].instruction, a.rows, a.cols, place_of(a).c_str(), sites_[scratch->site].instruction),
              {scratch->site});
        scratch->scratch = false;
    }
}

CheckError CoreCheck::in_call(const char *kind, uint32_t site, std::string message, CheckSubject subject) const {
    return {kind,
            std::move(message),
            site,
            std::move(subject),
            activation_->task->number,
            activation_->context.block_idx,
            activation_->member};
}

// Whether the instruction has to wait for an earlier one that touches the same bytes, and does not.
void CoreCheck::wait(const PyptoTileAccess &a, const Runs &runs, uint32_t pipe, uint32_t site, bool writes) {
    const ShadowConflict found = shadow_.unordered(a.space, runs, pipe, writes);
    if (!found)
        return;
    const ShadowAccess &earlier = *found.earlier;
    const bool same = earlier.pipe == pipe;
    const std::string what =
        format("%s on PIPE_%s %s the %dx%d tile at %s, which %s %s on PIPE_%s", sites_[site].instruction,
               pipe_name(pipe), writes ? "overwrites" : "reads", a.rows, a.cols, place_of(a).c_str(),
               sites_[earlier.site].instruction, found.was_read ? "reads" : "wrote", pipe_name(earlier.pipe));
    unordered_.push_back(in_call(
        same ? "no-barrier" : "unordered-pipes", site,
        what + (same ? "; no pipe_barrier(PIPE_V) lies between the two" : "; no set_flag and wait_flag order the two"),
        {earlier.site, pipe_name(pipe), pipe_name(earlier.pipe)}));
    shadow_.forgive(earlier.pipe, pipe);
}

// Flags that were waited for and not set, or set and not waited for, by the end of a call. Where one of each is between
// the same pipes, the one that was set has the wrong number.
void CoreCheck::returned() {
    spring();
    if (weak_) {
        weak_->land_left(false);
        for (const Omission &found : weak_->end(shadow_))
            omission(found);
        order_memory(PYPTO_BARRIER);
        if (weak_->effects())
            return;
    }
    std::vector<ShadowFlag> left = shadow_.left_set();
    const auto call = [](const ShadowFlag &f, const char *name) {
        return format("%s_flag(PIPE_%s, PIPE_%s, EVENT_ID%u)", name, pipe_name(f.from), pipe_name(f.to), f.id);
    };
    for (const ShadowFlag &wait : shadow_.in_vain()) {
        const auto pipes = [&](const ShadowFlag &f) { return f.from == wait.from && f.to == wait.to; };
        const auto set = std::find_if(left.begin(), left.end(), pipes);
        const char *to = pipe_name(wait.to), *from = pipe_name(wait.from);
        if (set == left.end()) {
            const auto same = [&](const CheckError &e) { return e.subject.awaited == call(wait, "wait"); };
            const auto told = std::find_if(unordered_.begin(), unordered_.end(), same);
            if (told == unordered_.end()) {
                const ShadowWaits waits = shadow_.waits_at(wait.site);
                const int flag = waits.in_vain == waits.all ? static_cast<int>(wait.id) : -1;
                unordered_.push_back(in_call("flags", wait.site,
                                             format("%s waits for ever: %u of the %u times that it is reached, no "
                                                    "set_flag is left for it",
                                                    call(wait, "wait").c_str(), waits.in_vain, waits.all),
                                             {~0u, to, from, {}, flag}));
                unordered_.back().subject.awaited = call(wait, "wait");
            } else if (told->site != wait.site) { // a set too few for several waits is one omission
                told->subject.other_site = wait.site;
                told->subject.flag = -1;
            }
            continue;
        }
        if (set->id < wait.id) // they are counted from 0: the higher number is the odd one
            unordered_.push_back(
                in_call("flags", wait.site,
                        call(wait, "wait") + " waits for ever, and " + call(*set, "set") + " is never waited for",
                        {set->site, to, from, {}, static_cast<int>(wait.id), static_cast<int>(set->id)}));
        else if (set->id != wait.id)
            unordered_.push_back(
                in_call("flags", set->site,
                        call(*set, "set") + " is never waited for, and " + call(wait, "wait") + " waits for ever",
                        {wait.site, to, from, {}, static_cast<int>(set->id), static_cast<int>(wait.id)}));
        left.erase(set);
    }
    for (const ShadowFlag &set : left) {
        const char *to = pipe_name(set.to), *from = pipe_name(set.from);
        const auto missed = std::find_if(unordered_.begin(), unordered_.end(), [&](const CheckError &e) {
            return e.subject.pipe == to && e.subject.other_pipe == from && e.subject.flag < 0;
        });
        if (missed != unordered_.end())
            missed->subject.flag = static_cast<int>(set.id); // what was to wait for it
        else
            unordered_.push_back(
                in_call("flags", set.site,
                        call(set, "set") + " is never waited for: the next kernel on this core finds it set", {}));
    }
}

void CoreCheck::tiles(const char *instruction, uint32_t pipe, const PyptoTileAccess *operands, uint32_t count,
                      void *address) {
    if (weak_ && weak_->effects()) { // values alone matter
        weak_->settle();
        shadow_.next_instruction(pipe);
        return;
    }
    spring();
    const uint32_t number = site(instruction, address);
    if (traced_)
        trace_.tiles(instruction, pipe, address, activation_->context, operands, count);
    Runs runs[8];
    bool usable[8];
    count = std::min<uint32_t>(count, 8);
    for (uint32_t i = 0; i < count; ++i) {
        const PyptoTileAccess &a = operands[i];
        if (a.valid_row <= a.rows && a.valid_col <= a.cols)
            continue;
        return error("valid-region", number,
                     format("%s: the %dx%d tile at %s has a valid region of %dx%d", instruction, a.rows, a.cols,
                            place_of(a).c_str(), a.valid_row, a.valid_col),
                     {~0u, "", "", place_of(a)});
    }
    for (uint32_t i = 0; i < count; ++i) {
        runs[i] = runs_of(operands[i]);
        usable[i] = runs[i].count > 0 && fits(operands[i], runs[i], number);
        runs[i].start +=
            static_cast<const uint8_t *>(operands[i].base) - activation_->context.memory[operands[i].space].base;
    }
    for (uint32_t i = 0; i < count; ++i)
        if (usable[i] && operands[i].access & PYPTO_READ)
            read(operands[i], runs[i], pipe, number);
    // What is read first: a wait for that orders most of what is overwritten.
    for (const bool writes : {false, true})
        for (uint32_t i = 0; i < count; ++i)
            if (usable[i] && ((operands[i].access & PYPTO_WRITE) != 0) == writes)
                wait(operands[i], runs[i], pipe, number, writes);
    const bool usable_all = std::all_of(usable, usable + count, [](bool one) { return one; });
    if (trap_.armed() && usable_all) {
        trap_.before(instruction, operands, count);
        trap_site_ = number;
    }
    const uint32_t clock = shadow_.next_instruction(pipe);
    const auto access = [&](uint32_t i) {
        const PyptoTileAccess &a = operands[i];
        const int64_t bytes = int64_t{a.valid_row} * a.valid_col * a.element;
        return ShadowAccess{
            pipe, clock, number, static_cast<uint32_t>((bytes + 255) / 256), runs[i], (a.access & PYPTO_SCRATCH) != 0};
    };
    for (uint32_t i = 0; i < count; ++i)
        if (usable[i] && operands[i].access & PYPTO_READ)
            shadow_.read(operands[i].space, access(i));
    for (uint32_t i = 0; i < count; ++i)
        if (usable[i] && operands[i].access & PYPTO_WRITE)
            shadow_.write(operands[i].space, access(i));
}

void CoreCheck::order(uint32_t kind, uint32_t from, uint32_t to, uint32_t id, void *address) {
    if (traced_)
        trace_.order(kind, from, to, id, address);
    if (weak_)
        order_memory(kind);
    if (kind == PYPTO_SIGNAL || kind == PYPTO_NOTIFY)
        signals_ = true;
    else if (kind == PYPTO_FENCE)
        return;
    else if (from >= kPipes || to >= kPipes)
        return;
    else if (kind == PYPTO_SET_FLAG)
        shadow_.set_flag(from, to, id, site("set_flag", address));
    else if (kind == PYPTO_WAIT_FLAG)
        shadow_.wait_flag(from, to, id, site("wait_flag", address));
    else
        shadow_.barrier(from, id != 0);
}

void CoreCheck::variable(const char *name, const PyptoVariable &variable) {
    if (traced_)
        trace_.variable(name, activation_->context, variable);
}

void CoreCheck::global(const char *instruction, uint32_t pipe, const PyptoGlobalAccess &access, void *address) {
    if ((access.access & PYPTO_WRITE) && pipe == kPipeLoads)
        pipe = kPipeStores; // an instruction of two halves: it loads on one pipe and stores on the other
    const uint32_t number = site(instruction, address);
    if (traced_)
        trace_.global(instruction, pipe, address, access);
    emit_view(access, [&](uint64_t base, int64_t rows, int64_t stride, int64_t length) {
        const GlobalRuns runs = in_one_piece(
            {base, static_cast<uint64_t>(rows), static_cast<uint64_t>(stride), static_cast<uint64_t>(length)});
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

// Whether `next` goes on where `last` ends: columns beside columns, bytes after bytes, or rows below rows.
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
                 as_long(static_cast<int64_t>(begin - touched->buffer.addr)),
                 as_long(static_cast<int64_t>(end - touched->buffer.addr)),
                 static_cast<size_t>(touched - tensors.data()), static_cast<unsigned long long>(touched->buffer.size)));
}

// Whether a load finds memory as it was before anybody wrote it. No harm by itself: what is loaded may not be used.
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

void CoreCheck::acquired(PipeRing &ring, uint32_t slots, bool producing, uint64_t number, const uint8_t *slot,
                         uint64_t bytes) {
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

void CoreCheck::advances(PipeRing &ring, bool producing, uint64_t number) {
    const std::lock_guard<std::mutex> lock(checker_.mutex_);
    auto &clocks = producing ? ring.full_clocks : ring.freed_clocks;
    if (clocks.size() <= number)
        clocks.resize(number + 1);
    for (int i = 0; i < kMembers; ++i)
        clocks[number][i] = std::max(clocks[number][i], i == activation_->member ? epoch_ : known_[i]);
    ++epoch_;
}

// --- all cores ---

CoreCheck *Checker::core(int index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<CoreCheck> &core = cores_[index];
    if (!core)
        core = std::make_unique<CoreCheck>(*this);
    return core.get();
}

void Checker::edge(const Edge &edge) {
    if (recording_ && edge.flags & DEP_WAIT)
        pending_.emplace_back(edge.producer, edge.source);
}

void Checker::submitted(const Task &task) {
    if (!recording_)
        return;
    tasks_.push_back({task.id,
                      task.number,
                      {task.kernels[0], task.kernels[1], task.kernels[2]},
                      task.block_num,
                      task.manual_scope,
                      task.arguments,
                      task.tensors,
                      std::move(pending_),
                      host_waits_.size()});
    pending_.clear();
}

void Checker::waited(const std::vector<ProducerEdge> &producers, bool and_readers) {
    if (!recording_)
        return;
    std::vector<uint64_t> ids;
    for (const ProducerEdge &producer : producers)
        ids.push_back(producer.task);
    host_waits_.emplace_back(std::move(ids), and_readers);
}

} // namespace pypto::runtime
