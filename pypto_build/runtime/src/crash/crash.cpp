// The signal handlers, and what they write down before the process dies.
#include "crash/crash.h"

#include "crash/containment.h"
#include "crash/samples.h"
#include "execution/artifact_code.h"
#include "execution/core.h"
#include "execution/kernel_library.h"
#include "pypto/kernel_args.h"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <exception>
#include <execinfo.h>
#include <fcntl.h>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <typeinfo>
#include <ucontext.h>
#include <unistd.h>

namespace pypto::runtime {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGURG};
constexpr size_t kSignalCount = sizeof(kSignals) / sizeof(kSignals[0]);
constexpr size_t kStackBytes = 128 * 1024;
constexpr uint64_t kStackReach = 1 << 20; // an access at most so far below the stack pointer is one to the stack

struct sigaction previous[kSignalCount];
Report *crash_report = nullptr;
Staging *crash_staging = nullptr;
pthread_t orchestration_thread;
pthread_t crashed_thread;
std::terminate_handler previous_terminate = nullptr;
// Handlers that have begun on this thread: one may crash at the report or at what is printed, if a kernel took them
// away. The system starts a handler whose stack has run out at its top again, so that would go on for ever.
thread_local int crash_depth = 0;
// Stack pointer of this thread when it began: calls do not reach the bytes above. Threads of kernels have none.
thread_local uint64_t stack_begin = ~uint64_t{0};

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

// An index that is too small misses its memory by little, one that is too large by anything: of two memories with the
// address between them, it is the lower one's, unless it lies this close before the upper one.
constexpr uint64_t kUnderrunBytes = 64 << 10;
constexpr uint64_t kFarBytes = uint64_t{1} << 30; // further away, no memory is near

struct Candidate {
    uint64_t cost = ~uint64_t{0};
    uint64_t distance = 0;
    uint64_t begin = 0;
    uint64_t bytes = 0;

    bool improve(uint64_t address, uint64_t from, uint64_t size) {
        const uint64_t end = from + size;
        const bool before = address < from;
        const uint64_t away = before ? from - address : address >= end ? address - end + 1 : 0;
        const uint64_t worth = before && away > kUnderrunBytes ? away + kFarBytes : away;
        if (size == 0 || away > kFarBytes || worth >= cost)
            return false;
        cost = worth;
        distance = away;
        begin = from;
        bytes = size;
        return true;
    }
};

// An argument that the task was not given, by the address that stands for it.
bool find_missing_argument(CrashRecord &crash, const Task &task) {
    const uint64_t number =
        crash.address < kNoArguments ? kLateContextSlot : (crash.address - kNoArguments) / kNoArgumentBytes;
    if (number < task.arguments.size() || number >= kLateContextSlot)
        return false;
    AddressPlace{Nearness::MissingArgument, number, task.arguments.size(), ""}.copy_to(crash);
    return true;
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
        name_frame(frame, info);
    }
    return static_cast<uint32_t>(count > 0 ? count : 0);
}

// Memory that the limit of data memory counts.
uint64_t data_bytes() {
    char text[256] = "";
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t length = read(file, text, sizeof(text) - 1);
    close(file);
    unsigned long long pages = 0;
    if (length <= 0 || std::sscanf(text, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
        return 0;
    return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t stack_pointer(const void *context) {
#if defined(__x86_64__)
    return static_cast<uint64_t>(static_cast<const ucontext_t *>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
    return static_cast<const ucontext_t *>(context)->uc_mcontext.sp;
#else
    (void)context;
    return ~uint64_t{0};
#endif
}

// Returns whether a fault at an unmapped address, with the stack pointer at `top`, means that the stack is used
// up. The memory of a core may be mapped right above the stack of its thread.
bool is_of_stack(uint64_t address, uint64_t top) {
    return address < top + kStackReach && address + kStackReach > top && address < stack_begin;
}

const char *culprit(const Activation *activation) {
    return activation                                            ? activation->kernel->name.c_str()
           : pthread_equal(pthread_self(), orchestration_thread) ? "orchestration"
                                                                 : "";
}

void write_crash(int signal, const siginfo_t *info, const void *context) {
    CrashRecord &crash = crash_report->crash;
    uint32_t none = 0;
    if (!crash.state.compare_exchange_strong(none, 1)) {
        // Another thread was first, and needs time to write down what it knows; or this one crashed at that.
        for (int i = 0; i < 100 && crash.state.load() == 1 && !pthread_equal(pthread_self(), crashed_thread); ++i)
            usleep(10'000);
        return;
    }
    crashed_thread = pthread_self();
    const Activation *activation = current_activation;
    crash.signal = signal;
    crash.code = info->si_code;
    crash.address = reinterpret_cast<uint64_t>(info->si_addr);
    crash.task = activation ? activation->task->number : kNoTask;
    crash.func_id = activation ? activation->kernel->func_id : -1;
    crash.block = activation ? activation->context.block_idx : 0;
    std::strncpy(crash.kernel, culprit(activation), sizeof(crash.kernel) - 1);
    crash.data_bytes = data_bytes();
    Text arguments{crash.arguments, sizeof(crash.arguments)};
    if (activation)
        add_arguments(arguments, *activation->task);
    if (signal == SIGSEGV || signal == SIGBUS) {
        if (is_of_stack(crash.address, stack_pointer(context)))
            AddressPlace{Nearness::StackUsedUp, 0, 0, ""}.copy_to(crash);
        else if (!activation || !find_missing_argument(crash, *activation->task))
            place_of(crash.address, activation).copy_to(crash);
    }
    crash.frame_count = collect_frames(crash.frames);
    crash.state.store(2);
}

// Carries out what the parent asks of a run that it stops; false if the process is to end.
bool obey(const void *context) {
    const uint32_t command = crash_report->command.load();
    switch (static_cast<StopCommand>(command & 0xff)) {
    case StopCommand::Ask:
        sample_threads(context);
        break;
    case StopCommand::Close:
        close_memory();
        break;
    case StopCommand::Open:
        open_memory();
        break;
    case StopCommand::End:
        open_memory();
        return false;
    default:
        return false;
    }
    crash_report->answered.store(command);
    return true;
}

void handle(int signal, siginfo_t *info, void *context) {
    const int error = errno;
    if (serve_sample(signal, info, context)) {
        errno = error;
        return;
    }
    if (signal == SIGTERM && crash_report && obey(context)) {
        errno = error;
        return;
    }
    if ((signal == SIGSEGV || signal == SIGBUS) && crash_staging) {
        const Activation *activation = current_activation;
        if (crash_staging->open_guarded(reinterpret_cast<uint64_t>(info->si_addr),
                                        activation ? activation->task->number : kNoTask, culprit(activation)))
            return;
    }
    const int depth = crash_depth++;
    if (depth == 0 && crash_report)
        write_crash(signal, info, context);
    if (depth <= 1)
        flush_output(); // what was printed is not to be lost
    std::signal(signal, SIG_DFL);
    raise(signal);
}

// Runs at an uncaught exception: its text goes into the report, the rest follows from SIGABRT.
[[noreturn]] void describe_exception() {
    const std::exception_ptr escaped = std::current_exception();
    if (crash_report && escaped) {
        CrashRecord &crash = crash_report->crash;
        Text text{crash.exception, sizeof(crash.exception)};
        try {
            std::rethrow_exception(escaped);
        } catch (const CodeEnded &) {
            flush_output();
            _exit(kFaultTold);
        } catch (const std::bad_alloc &exception) {
            crash.escaped = Escaped::NoMemory;
            text.add("%s", exception.what());
        } catch (const std::exception &exception) {
            crash.escaped = Escaped::Text;
            text.add("%s", exception.what());
        } catch (...) {
            crash.escaped = Escaped::TypeName;
            const std::type_info *type = abi::__cxa_current_exception_type();
            int status = 0;
            const char *name = type ? abi::__cxa_demangle(type->name(), nullptr, nullptr, &status) : nullptr;
            text.add("%s", name ? name : "unknown");
        }
    }
    std::abort();
}

} // namespace

AddressPlace place_of(uint64_t address, const Activation *activation) {
    Candidate best;
    AddressPlace place;
    char (&name)[sizeof(place.name)] = place.name;
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
    if (crash_staging)
        for (const Staging::Region &region : crash_staging->regions())
            if (best.improve(address, reinterpret_cast<uint64_t>(region.base), region.bytes) ||
                (name[0] && reinterpret_cast<uint64_t>(region.base) == best.begin))
                std::snprintf(name, sizeof(name), "tensor %s", region.name);
    place.bytes = best.bytes;
    place.distance = best.distance;
    if (name[0] == 0) {
        place.nearness = Nearness::Nothing;
    } else if (best.distance == 0) {
        place.nearness = Nearness::Inside;
        place.distance = address - best.begin;
    } else {
        place.nearness = address < best.begin ? Nearness::Before : Nearness::Past;
    }
    return place;
}

void name_frame(ReportFrame &frame, const Dl_info &info) {
    if (info.dli_fname)
        std::strncpy(frame.module, info.dli_fname, sizeof(frame.module) - 1);
    if (info.dli_sname)
        std::strncpy(frame.symbol, info.dli_sname, sizeof(frame.symbol) - 1);
}

void write_fault(FaultRecord &record, const Fault &fault) {
    std::string text = fault.json();
    if (text.size() > sizeof(record.json))
        text = fault.json(false);
    record.state.store(1);
    record.bytes = static_cast<uint32_t>(text.copy(record.json, sizeof(record.json)));
    record.state.store(2);
}

CrashGuard::CrashGuard(Report *report, Staging &staging) {
    crash_report = report;
    crash_staging = &staging;
    orchestration_thread = pthread_self();
    previous_terminate = std::set_terminate(describe_exception);
    void *warm_up[1];
    backtrace(warm_up, 1); // loads the unwinder now, not in a handler
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < kSignalCount; ++i)
        sigaction(kSignals[i], &action, &previous[i]);
}

CrashGuard::~CrashGuard() {
    for (size_t i = 0; i < kSignalCount; ++i)
        sigaction(kSignals[i], &previous[i], nullptr);
    std::set_terminate(previous_terminate);
    crash_report = nullptr;
    crash_staging = nullptr;
}

SignalStack::SignalStack() {
    stack_begin = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
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
