#include "crash.h"

#include "core.h"
#include "kernel_library.h"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>

namespace pypto::runtime {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t kSignalCount = sizeof(kSignals) / sizeof(kSignals[0]);
constexpr size_t kStackBytes = 128 * 1024;

struct sigaction previous[kSignalCount];
Report *crash_report = nullptr;
Staging *crash_staging = nullptr;

struct Text { // appends to a fixed field
    char *data;
    size_t size;
    size_t used = 0;

    __attribute__((format(printf, 2, 3))) void add(const char *pattern, ...) {
        if (used + 1 >= size)
            return;
        va_list arguments;
        va_start(arguments, pattern);
        const int written = std::vsnprintf(data + used, size - used, pattern, arguments);
        va_end(arguments);
        if (written > 0)
            used = used + static_cast<size_t>(written) < size ? used + static_cast<size_t>(written) : size - 1;
    }
};

const char *const kTypeNames[kDataTypeCount] = {
    "float32", "float16", "int32",  "int16", "int8",          "uint8",          "bfloat16",   "int64",
    "uint64",  "uint16",  "uint32", "bool",  "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1"};
const char *const kTagNames[] = {"IN", "OUT", "INOUT", "OUT", "NO_DEP"};
const char *const kSpaceNames[PYPTO_SPACE_COUNT] = {"UB",   "L1",   "L0A",       "L0B",      "L0C",
                                                    "bias", "fbuf", "L0A scale", "L0B scale"};

void add_shape(Text &text, const ChipTensor &tensor) {
    text.add("%s[",
             static_cast<uint32_t>(tensor.dtype) < kDataTypeCount ? kTypeNames[static_cast<int>(tensor.dtype)] : "?");
    for (uint32_t d = 0; d < tensor.ndims && d < MAX_TENSOR_DIMS; ++d)
        text.add("%s%u", d ? ", " : "", tensor.shapes[d]);
    text.add("]");
}

void add_arguments(Text &text, const Task &task) {
    for (size_t i = 0; i < task.arguments.size(); ++i) {
        const TaskArgument &argument = task.arguments[i];
        if (argument.kind == ArgEntry::SCALAR) {
            text.add("arg %zu scalar 0x%llx\n", i, static_cast<unsigned long long>(task.scalars[argument.index]));
            continue;
        }
        const ChipTensor &tensor = task.tensors[argument.index];
        text.add("arg %zu %s ", i, kTagNames[static_cast<int>(argument.tag)]);
        add_shape(text, tensor);
        text.add(" at 0x%llx\n",
                 static_cast<unsigned long long>(reinterpret_cast<uint64_t>(tensor.data_as<uint8_t>())));
    }
}

struct Candidate {
    uint64_t distance = ~uint64_t{0};
    uint64_t begin = 0;
    uint64_t bytes = 0;

    bool improve(uint64_t address, uint64_t from, uint64_t size) {
        const uint64_t end = from + size;
        const uint64_t away = address < from ? from - address : address >= end ? address - end + 1 : 0;
        if (size == 0 || away >= distance)
            return false;
        distance = away;
        begin = from;
        bytes = size;
        return true;
    }
};

void add_nearest(Text &text, uint64_t address, const Activation *activation) {
    Candidate best;
    char name[96] = "";
    if (activation) {
        for (int i = 0; i < PYPTO_SPACE_COUNT; ++i)
            if (const PyptoMemory &memory = activation->context.memory[i];
                best.improve(address, reinterpret_cast<uint64_t>(memory.base), memory.size))
                std::snprintf(name, sizeof(name), "%s", kSpaceNames[i]);
        const Task &task = *activation->task;
        for (size_t i = 0; i < task.arguments.size(); ++i) {
            if (task.arguments[i].kind == ArgEntry::SCALAR)
                continue;
            const ChipTensor &tensor = task.tensors[task.arguments[i].index];
            if (best.improve(address, tensor.buffer.addr, tensor.buffer.size))
                std::snprintf(name, sizeof(name), "the buffer of argument %zu", i);
        }
    }
    if (const Staging::Region *region = crash_staging ? crash_staging->nearest(address) : nullptr)
        if (best.improve(address, reinterpret_cast<uint64_t>(region->base), region->bytes) ||
            reinterpret_cast<uint64_t>(region->base) == best.begin)
            std::snprintf(name, sizeof(name), "tensor %s", region->name);
    if (name[0] == 0 || best.distance > (uint64_t{1} << 30))
        text.add("no tensor is near");
    else if (best.distance == 0)
        text.add("byte %llu of %s (%llu bytes)", static_cast<unsigned long long>(address - best.begin), name,
                 static_cast<unsigned long long>(best.bytes));
    else if (address < best.begin)
        text.add("%llu bytes before %s (%llu bytes)", static_cast<unsigned long long>(best.distance), name,
                 static_cast<unsigned long long>(best.bytes));
    else
        text.add("%llu bytes past the end of %s (%llu bytes)", static_cast<unsigned long long>(best.distance), name,
                 static_cast<unsigned long long>(best.bytes));
}

uint32_t collect_frames(ReportFrame *frames) {
    void *addresses[kReportFrames];
    const int count = backtrace(addresses, kReportFrames);
    for (int i = 0; i < count; ++i) {
        ReportFrame &frame = frames[i];
        frame.address = reinterpret_cast<uint64_t>(addresses[i]);
        Dl_info info;
        if (dladdr(addresses[i], &info) == 0)
            continue;
        frame.offset = frame.address - reinterpret_cast<uint64_t>(info.dli_fbase);
        if (info.dli_fname)
            std::strncpy(frame.module, info.dli_fname, sizeof(frame.module) - 1);
        if (info.dli_sname)
            std::strncpy(frame.symbol, info.dli_sname, sizeof(frame.symbol) - 1);
    }
    return static_cast<uint32_t>(count > 0 ? count : 0);
}

void write_crash(int signal, const siginfo_t *info) {
    CrashRecord &crash = crash_report->crash;
    uint32_t none = 0;
    if (!crash.state.compare_exchange_strong(none, 1))
        return; // another thread was first
    const Activation *activation = current_activation;
    crash.signal = signal;
    crash.code = info->si_code;
    crash.address = reinterpret_cast<uint64_t>(info->si_addr);
    crash.task = activation ? activation->task->number : kNoTask;
    crash.func_id = activation ? activation->kernel->func_id : -1;
    crash.block = activation ? activation->context.block_idx : 0;
    std::strncpy(crash.kernel, activation ? activation->kernel->name.c_str() : "orchestration",
                 sizeof(crash.kernel) - 1);
    Text arguments{crash.arguments, sizeof(crash.arguments)};
    if (activation)
        add_arguments(arguments, *activation->task);
    Text nearest{crash.nearest, sizeof(crash.nearest)};
    if (signal == SIGSEGV || signal == SIGBUS)
        add_nearest(nearest, crash.address, activation);
    crash.frame_count = collect_frames(crash.frames);
    crash.state.store(2);
}

void handle(int signal, siginfo_t *info, void *) {
    if ((signal == SIGSEGV || signal == SIGBUS) && crash_staging) {
        const Activation *activation = current_activation;
        if (crash_staging->open_guarded(reinterpret_cast<uint64_t>(info->si_addr),
                                        activation ? activation->task->number : kNoTask,
                                        activation ? activation->kernel->name.c_str() : "orchestration"))
            return;
    }
    if (crash_report)
        write_crash(signal, info);
    std::signal(signal, SIG_DFL);
    raise(signal);
}

} // namespace

CrashGuard::CrashGuard(Report *report, Staging &staging) {
    crash_report = report;
    crash_staging = &staging;
    void *warm_up[1];
    backtrace(warm_up, 1); // loads the unwinder now, not in a handler
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < kSignalCount; ++i)
        sigaction(kSignals[i], &action, &previous[i]);
}

CrashGuard::~CrashGuard() {
    for (size_t i = 0; i < kSignalCount; ++i)
        sigaction(kSignals[i], &previous[i], nullptr);
    crash_report = nullptr;
    crash_staging = nullptr;
}

SignalStack::SignalStack() {
    memory_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) {
        memory_ = nullptr;
        return;
    }
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = kStackBytes;
    sigaltstack(&stack, nullptr);
}

SignalStack::~SignalStack() {
    if (memory_ == nullptr)
        return;
    stack_t stack{};
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    munmap(memory_, kStackBytes);
}

} // namespace pypto::runtime
