// Samples of stacks and of accesses, taken by signals.
#include "crash/samples.h"

#include "base/pages.h"
#include "crash/crash.h"
#include "execution/core.h"
#include "execution/kernel_library.h"
#include "graph/block_pool.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>

namespace pypto::runtime {

namespace {

constexpr int kAsk = SIGURG;          // ignored by default
constexpr int kAnswerMs = 100;        // for all threads to say where they are
constexpr int kSampleFramesSeen = 48; // those of handlers and of libraries are left out

struct Range {
    uint64_t begin, end;
    int access; // PROT_…
};

Report *sampled = nullptr;
const Staging *sampled_staging = nullptr;
const BlockPool *sampled_blocks = nullptr;
const std::vector<uint64_t> *sampled_windows = nullptr;
std::atomic<int> thread_ids[kReportThreads];
std::atomic<uint32_t> taken{0};    // samples begun
std::atomic<uint32_t> closings{0}; // odd while memory is closed
std::atomic<bool> asked_once{false};
Range closed[1024];
size_t closed_count = 0;
thread_local int own_core = -1;
thread_local uint64_t tried = 0; // an access that faulted when memory was open

void pause_ms(int milliseconds) {
    const timespec length{0, milliseconds * 1'000'000L};
    nanosleep(&length, nullptr);
}

HangSample *sample_of(int core) {
    for (uint32_t i = 0; i < std::min(taken.load(), kReportSamples); ++i)
        if (sampled->samples[i].core == core && sampled->samples[i].state.load() == 2)
            return &sampled->samples[i];
    return nullptr;
}

// Frames of what is neither the runtime nor the system. A return address is behind its call, so one less is kept of it;
// the frame that a signal came to is where it is.
void collect(HangSample &sample) {
    void *addresses[kSampleFramesSeen];
    Dl_info own{}, info{};
    dladdr(reinterpret_cast<void *>(&serve_sample), &own);
    const int count = backtrace(addresses, kSampleFramesSeen);
    uint32_t kept = 0;
    for (int i = 0; i < count && kept < kSampleFrames; ++i) {
        if (dladdr(addresses[i], &info) == 0 || info.dli_fname == nullptr || info.dli_fbase == own.dli_fbase ||
            is_of_the_system(info.dli_fname))
            continue;
        ReportFrame &frame = sample.frames[kept++];
        frame.address = reinterpret_cast<uint64_t>(addresses[i]);
        frame.offset =
            frame.address - reinterpret_cast<uint64_t>(info.dli_fbase) - (frame.address == sample.at ? 0 : 1);
        name_frame(frame, info);
    }
    sample.frame_count = kept;
}

uint64_t program_counter(const void *context) {
    if (context == nullptr)
        return 0;
#if defined(__x86_64__)
    return static_cast<uint64_t>(static_cast<const ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return static_cast<const ucontext_t *>(context)->uc_mcontext.pc;
#else
    return 0;
#endif
}

void sample_own(const void *context) {
    const uint32_t place = taken.fetch_add(1);
    if (place >= kReportSamples)
        return;
    HangSample &sample = sampled->samples[place];
    sample.state.store(1);
    sample.core = own_core;
    sample.running.task.store(kNoTask);
    if (own_core >= 0 && own_core < static_cast<int>(kReportThreads)) {
        const RunningSlot &slot = sampled->threads[own_core];
        sample.running.func_id = slot.func_id;
        sample.running.block = slot.block;
        sample.running.start_ns = slot.start_ns;
        sample.running.member = slot.member;
        sample.running.waits.store(slot.waits.load());
        std::memcpy(sample.running.kernel, slot.kernel, sizeof(slot.kernel));
        sample.running.task.store(slot.task.load());
    }
    sample.looks = sample.polls = sample.closing = 0;
    sample.at = program_counter(context);
    collect(sample);
    sample.state.store(2);
}

void add_range(uint64_t begin, uint64_t bytes, int access) {
    if (bytes && closed_count < sizeof(closed) / sizeof(closed[0]))
        closed[closed_count++] = {begin / kPage * kPage, begin + pages(begin % kPage + bytes), access};
}

void find_ranges() {
    closed_count = 0;
    for (const Staging::Region &region : sampled_staging->regions())
        add_range(reinterpret_cast<uint64_t>(region.base), region.bytes,
                  region.guarded ? PROT_READ : PROT_READ | PROT_WRITE);
    sampled_blocks->for_each_chunk([](const uint8_t *base, uint64_t bytes) {
        add_range(reinterpret_cast<uint64_t>(base), bytes, PROT_READ | PROT_WRITE);
    });
    for (size_t i = 0; i + 1 < sampled_windows->size(); i += 2)
        add_range((*sampled_windows)[i], (*sampled_windows)[i + 1], PROT_READ | PROT_WRITE);
}

void set_access(bool open) {
    for (size_t i = 0; i < closed_count; ++i)
        mprotect(reinterpret_cast<void *>(closed[i].begin), closed[i].end - closed[i].begin,
                 open ? closed[i].access : PROT_NONE);
}

bool is_closed(uint64_t address) {
    return std::any_of(closed, closed + closed_count,
                       [address](const Range &range) { return address >= range.begin && address < range.end; });
}

// An access while memory is closed: noted, and made once it is open.
void note_access(uint64_t address, const void *context) {
    const uint32_t closing = closings.load();
    if (HangSample *sample = own_core >= 0 ? sample_of(own_core) : nullptr; sample && sample->closing != closing) {
        const uint64_t at = program_counter(context);
        const bool same = sample->looks && sample->address == address && sample->at == at;
        sample->polls = same ? sample->polls + 1 : 1;
        if (!same) {
            sample->address = address;
            sample->at = at;
            collect(*sample);
            place_of(address, current_activation).copy_to(*sample);
        }
        ++sample->looks;
        sample->closing = closing;
    }
    while (closings.load() == closing)
        pause_ms(1);
}

} // namespace

Sampling::Sampling(Report *report, const Staging &staging, const BlockPool &blocks,
                   const std::vector<uint64_t> &windows) {
    sampled_staging = &staging;
    sampled_blocks = &blocks;
    sampled_windows = &windows;
    taken.store(0);
    asked_once.store(false);
    closings.store(0);
    for (std::atomic<int> &id : thread_ids)
        id.store(0);
    sampled = report;
}

Sampling::~Sampling() {
    sampled = nullptr;
}

void watch_thread(int core) {
    own_core = core;
    if (core < static_cast<int>(kReportThreads))
        thread_ids[core].store(static_cast<int>(syscall(SYS_gettid)));
}

void sample_threads(const void *context) {
    if (sampled == nullptr || asked_once.exchange(true))
        return;
    const int process = getpid();
    uint32_t asked = 0;
    for (uint32_t core = 0; core < std::min(sampled->thread_count.load(), kReportThreads); ++core) {
        const int thread = thread_ids[core].load();
        if (thread == 0 || sampled->threads[core].task.load() == kNoTask)
            continue;
        if (static_cast<int>(core) == own_core)
            sample_own(context);
        else if (syscall(SYS_tgkill, process, thread, kAsk) != 0)
            continue;
        ++asked;
    }
    const auto done = [asked] {
        uint32_t count = 0;
        for (uint32_t i = 0; i < std::min(taken.load(), kReportSamples); ++i)
            count += sampled->samples[i].state.load() == 2;
        return count >= std::min(asked, kReportSamples);
    };
    for (int waited = 0; waited < kAnswerMs && !done(); ++waited)
        pause_ms(1);
}

void close_memory() {
    if (sampled == nullptr || closings.load() % 2)
        return;
    find_ranges();
    closings.fetch_add(1);
    set_access(false);
}

void open_memory() {
    if (closings.load() % 2 == 0)
        return;
    set_access(true);
    for (uint32_t i = 0; i < std::min(taken.load(), kReportSamples); ++i)
        if (HangSample &sample = sampled->samples[i]; sample.closing == closings.load() && sample.address % 4 == 0)
            sample.value = *reinterpret_cast<const int32_t *>(sample.address);
    closings.fetch_add(1);
}

bool serve_sample(int signal, const siginfo_t *info, void *context) {
    if (signal == kAsk) {
        if (sampled)
            sample_own(context);
        return true;
    }
    const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
    if ((signal != SIGSEGV && signal != SIGBUS) || sampled == nullptr || closings.load() == 0 || !is_closed(address))
        return false;
    if (closings.load() % 2) {
        note_access(address, context);
        return true;
    }
    const bool again = std::exchange(tried, address) == address;
    if (again)
        tried = 0;
    return !again; // it may have been opened meanwhile
}

} // namespace pypto::runtime
