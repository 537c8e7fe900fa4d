// Data that a checked kernel leaves stale in global memory, in words (MEMORY=weak).
#include "checking/check_record.h"
#include "execution/executor.h"

namespace pypto::runtime {

namespace {

constexpr const char *kClean = "dcci((__gm__ void *)0, cache_line_t::ENTIRE_DATA_CACHE);";
constexpr const char *kFence = "dsb(DSB_DDR);";
constexpr const char *kOmissions[] = {"stale-load", "unclean-load",  "stale-read",
                                      "lost-store", "unclean-store", "unfinished-store"};

std::string drained(const char *pipe) {
    return format("pipe_barrier(PIPE_%s);", pipe);
}

} // namespace

void CoreCheck::begin_memory() {
    std::vector<std::pair<uint64_t, uint64_t>> memory;
    for (const ChipTensor &tensor : activation_->task->tensors)
        memory.emplace_back(tensor.buffer.addr, tensor.buffer.addr + tensor.buffer.size);
    const std::vector<uint64_t> &windows = checker_.settings_.windows;
    for (size_t i = 0; i + 1 < windows.size(); i += 2)
        memory.emplace_back(windows[i], windows[i] + windows[i + 1]);
    const auto block = static_cast<uint64_t>(activation_->context.block_idx);
    const auto member = static_cast<uint64_t>(activation_->member);
    weak_->begin(std::move(memory), activation_->task->number << 24 | block << 2 | member);
    overtaken_ = false;
}

// Checks an access to memory just before its instruction.
void CoreCheck::visibility(const GlobalRuns &runs, uint32_t pipe, uint32_t site, uint32_t kind) {
    if (!weak_->known(runs.base, 1))
        return; // a slot of a pipe
    std::optional<Omission> found;
    if (kind & PYPTO_WRITE)
        weak_->store(runs, pipe, shadow_.next_instruction(pipe), (kind & PYPTO_ATOMIC) != 0, site);
    else if (pipe == kPipeScalar)
        found = weak_->read(runs.base, runs.end() - runs.base, site);
    else
        found = weak_->load(runs, shadow_, site);
    if (found)
        omission(*found);
}

void CoreCheck::clean(const void *line) {
    if (!weak_)
        return;
    if (const auto found = weak_->clean(reinterpret_cast<uint64_t>(line)))
        omission(*found);
}

void CoreCheck::passed_barrier(uint32_t cores) {
    if (checker_.settings_.instructions)
        return instructions_.met(cores);
    ++phase_;
    if (weak_ && !weak_->effects() && shadow_.orders())
        for (const auto &[site, runs] : weak_->unseen())
            late_.push_back(record(runs, site, PYPTO_WRITE));
}

// A slot goes to another core by the pipe that fills it, and what that pipe stored before is there too.
void CoreCheck::hand_over(bool producing) {
    if (weak_ && producing)
        weak_->hand_over();
}

void CoreCheck::plain(uint64_t place, uint64_t bytes, uint32_t access, void *address) {
    if (!weak_ || !weak_->known(place, bytes)) // of the kernel's own variables there are many, between the parts of
        return;                                // one instruction too
    const bool writes = access & PYPTO_WRITE;
    const uint32_t number = site(writes ? "plain write" : "plain read", address);
    if (writes) {
        weak_->write(place, bytes, number);
    } else if (const auto found = weak_->read(place, bytes, number)) {
        omission(*found);
    }
    region({place, 1, 0, bytes}, number, static_cast<uint8_t>(access | PYPTO_PLAIN));
}

// An access to a window: it is visible to other ranks at once, or later; a plain read is as old as its line.
void CoreCheck::window(const AccessRecord &record, uint32_t site) {
    RankSignals &signals = activation_->executor->signals();
    const uint64_t number = signals.access(record, *activation_, sites_[site].instruction,
                                           reinterpret_cast<const void *>(sites_[site].address));
    if (!weak_ || weak_->effects() || number == RankSignals::kNowhere)
        return;
    if (record.kind & PYPTO_WRITE) {
        signals.not_visible(number);
        weak_->note(number);
    } else if (record.kind & PYPTO_PLAIN) {
        signals.fetched(number, weak_->fetched(record.base, signals.now()));
    }
}

void CoreCheck::order_memory(uint32_t kind) {
    RankSignals &signals = activation_->executor->signals();
    if (kind == PYPTO_FENCE) {
        if (overtaken_)
            signals.let_others_pass();
        overtaken_ = false;
        weak_->fence(shadow_);
    } else {
        weak_->settle();
    }
    if (kind == PYPTO_NOTIFY && !shadow_.orders())
        weak_->hand_over(); // there are no markers yet
    for (const uint64_t number : weak_->landed())
        signals.visible(number);
    if (kind == PYPTO_NOTIFY)
        overtaken_ = weak_->effects() && weak_->holds_back();
}

void CoreCheck::omission(const Omission &found) {
    if (weak_->effects())
        return; // it shows in the values
    const CheckSite &site = sites_[found.site];
    const char *instruction = site.instruction;
    const char *other = found.other == ~0u ? "" : sites_[found.other].instruction;
    const char *pipe = pipe_name(found.pipe);
    const std::string where = argument_bytes(found.begin, found.end);
    const std::string drain = drained(pipe) + " " + kFence;
    CheckSubject subject{found.other};
    std::string message;
    switch (found.kind) {
    case Omission::StaleLoad:
        message =
            format("%s loads %s, which %s stored on PIPE_%s: flags order the pipes, but no dsb after the store is "
                   "over makes it visible",
                   instruction, where.c_str(), other, pipe);
        subject.markers = drain;
        break;
    case Omission::UncleanLoad:
        message =
            format("%s loads %s, which a %s has put into the core's data cache: %s", instruction, where.c_str(), other,
                   found.cleaned ? "dcci has written the line back, and no dsb waits for it"
                                 : "no dcci has written the line back");
        subject.markers = found.cleaned ? kFence : std::string(kClean) + " " + kFence;
        break;
    case Omission::StaleRead:
        message = format("%s of %s returns the value from before %s%s", instruction, where.c_str(), other,
                         found.pending ? ": no dsb after the store is over makes it visible"
                                       : ": the line is in the core's data cache since then");
        subject.markers = (found.pending ? drain + " " : std::string()) + kClean;
        break;
    case Omission::LostStore:
        message = format(found.before ? "%s stores into %s, a line that a %s has changed in the core's data cache: "
                                        "written back later, whole, it overwrites what is stored"
                                      : "%s into %s, a line that the data cache holds since before %s stored there: "
                                        "written back whole, it overwrites what was stored",
                         instruction, where.c_str(), other);
        subject.markers = (found.pending && !found.before ? drain + " " : std::string()) + kClean +
                          (found.before ? std::string(" ") + kFence : std::string());
        break;
    case Omission::UncleanStore:
        message = format("%s of %s stays in the core's data cache: no dcci writes the line back before the kernel "
                         "returns",
                         instruction, where.c_str());
        subject.markers = std::string(kClean) + " " + kFence;
        subject.at_end = true;
        break;
    case Omission::UnfinishedStore:
        message = format("%s on PIPE_%s stores %s and may still be under way when the kernel returns: nothing waits "
                         "for it",
                         instruction, pipe, where.c_str());
        subject.markers = drained("ALL");
        subject.at_end = true;
        break;
    }
    error(kOmissions[found.kind], found.site, message, std::move(subject));
}

// "bytes 0 to 64 of tensor argument 2".
std::string CoreCheck::argument_bytes(uint64_t begin, uint64_t end) const {
    const std::vector<ChipTensor> &tensors = activation_->task->tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const uint64_t low = tensors[i].buffer.addr, high = low + tensors[i].buffer.size;
        if (begin < high && end > low)
            return format("bytes %llu to %llu of tensor argument %zu",
                          static_cast<unsigned long long>(std::max(begin, low) - low),
                          static_cast<unsigned long long>(std::min(end, high) - low), i);
    }
    return "a window";
}

void CoreCheck::finish() {
    if (weak_)
        weak_->land_left(true);
}

void Checker::finish() {
    for (const auto &[index, core] : cores_)
        core->finish();
}

} // namespace pypto::runtime
