// Judges the tiles of each instruction: where they lie, whether they were written, whether earlier instructions are
// waited for, and whether the flags of a call come out even.
#include "checking/check_record.h"
#include "checking/view_runs.h"
#include "execution/executor.h"

#include <algorithm>

namespace pypto::runtime {

namespace {

constexpr const char *kSpaces[] = {"UB", "L1", "L0A", "L0B", "L0C", "BIAS", "FBUF", "SCALE_A", "SCALE_B"};
constexpr int64_t kAlignment = 32;
constexpr size_t kExecuted = 64; // of a site: rules of the device are held against no more

} // namespace

// "UB 0x40".
std::string CoreCheck::place_of(const PyptoTileAccess &a) const {
    return format("%s 0x%llx", kSpaces[a.space],
                  static_cast<unsigned long long>(static_cast<const uint8_t *>(a.base) -
                                                  activation_->context.memory[a.space].base));
}

// Returns whether the operand is a tile, and inside its declared memory.
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
        error("misaligned", site,
              format("%s is not aligned to %lld bytes", tile().c_str(), static_cast<long long>(kAlignment)),
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

// Reports an instruction that has to wait for an earlier one on the same bytes, and does not.
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

// Keeps the operands of an instruction, if the site has not had them before.
void CoreCheck::executed(const PyptoTileAccess *operands, uint32_t count, uint32_t site) {
    if (site >= seen_.size())
        seen_.resize(site + 1);
    std::vector<uint64_t> &seen = seen_[site];
    if (seen.size() >= kExecuted)
        return;
    int64_t numbers[8 * 8];
    uint64_t digest = 0xcbf29ce484222325;
    size_t next = 0;
    for (const PyptoTileAccess *a = operands; a < operands + std::min<uint32_t>(count, 8); ++a) {
        const int64_t at = static_cast<const uint8_t *>(a->base) - activation_->context.memory[a->space].base;
        for (const int64_t number : {int64_t{a->space}, int64_t{a->access}, int64_t{a->element}, int64_t{a->rows},
                                     int64_t{a->cols}, int64_t{a->valid_row}, int64_t{a->valid_col}, at}) {
            numbers[next++] = number;
            digest = (digest ^ static_cast<uint64_t>(number)) * 0x100000001b3;
        }
    }
    if (std::find(seen.begin(), seen.end(), digest) != seen.end())
        return;
    seen.push_back(digest);
    executed_.push_back({site, {numbers, numbers + next}});
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
    if (checker_.keeps_operands())
        executed(operands, count, number);
    for (uint32_t i = 0; i < count; ++i) {
        runs[i] = runs_of(operands[i]);
        usable[i] = runs[i].count > 0 && fits(operands[i], runs[i], number);
        runs[i].start +=
            static_cast<const uint8_t *>(operands[i].base) - activation_->context.memory[operands[i].space].base;
    }
    for (uint32_t i = 0; i < count; ++i)
        if (usable[i] && operands[i].access & PYPTO_READ)
            read(operands[i], runs[i], pipe, number);
    // Reads first: a wait for these orders most of the overwritten bytes.
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

} // namespace pypto::runtime
