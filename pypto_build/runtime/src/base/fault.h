// A fault of a run as data: a kind, and the fields of its text in pypto_build/runtime/faults.py.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

namespace pypto::runtime {

/// The kinds, with the numbers of pypto_build/facts/faults.py, where each has its code, status and words.
enum class FaultKind : int32_t {
    None = 0,
    // what a run is asked
    UnknownPlatform = 1,
    UnknownDtype,
    UnknownDirection,
    TensorFields,
    BufferTooSmall,
    UnknownOption,
    RingValues,
    RingLimit,
    OrderRepeats,
    OrderBroken,
    NoOutputDir,
    DumpLevel,
    SwimlaneLevel,
    DumpFormat,
    SelectionWithoutDump,
    DumpSelect,
    DumpTasks,
    NotWritable,
    // what it loads
    NotLoadable,
    KernelNumber,
    KernelCoreType,
    KernelNumberTaken,
    NoKernelEntry,
    KernelAbi,
    NoOrchestration,
    OtherOrchestration,
    NoOrchestrationEntry,
    OrchestrationAbi,
    // what it starts with
    TensorMemory,
    ParameterOrder,
    ExpectedArguments,
    NoMemoryForInput,
    NoMemoryForCore,
    // what the orchestration does
    ReportedFatal,
    OrchestrationStatus,
    Misuse,
    EntryArgument,
    ScopeLeftOpen,
    AutoScopeInManual,
    ScopesTooDeep,
    ScopeNeverBegun,
    ArgumentMisuse,
    TooManyArguments,
    UnknownKernel,
    WrongCoreType,
    NoBlocks,
    PredicateWithoutTensor,
    TooManyBlocksTogether,
    NullArgument,
    UnsetArgument,
    ArgumentTooLarge,
    TensorNotWritten,
    TensorWithoutStorage,
    InvalidDependency,
    TooManyAllocations,
    NotCreateInfo,
    IndexCount,
    IndexOutside,
    GraphEdge,
    GraphTimingSlot,
    // what there is no room for
    HeapFull,
    DependencyPoolFull,
    WindowFull,
    ScopeFillsWindow,
    TensorMapFull,
    NoMemory,
    // what can no longer happen
    Stall,
    TensorWait,
    GroupDeadlock,
    BarrierMissed,
    // what kernels do
    KernelReported,
    KernelEndedItself,
    SlotNotAcquired,
    SlotNotPopped,
    BarrierWithoutStart,
    CheckFailed,
    CallbackEnded,
    // what stands in for kernels does; noticed in Python
    Reference,
    ReferenceDeadlock,
    EscapedException,
    OutOfMemory,
    UnusableInput,
    NotTranslated,
    // what many chips do; noticed in Python
    Driver,
    WindowOverrun,
    RanksDeadlock,
    // what a kernel leaves for its task to wait for
    AsyncInvalid,
    AsyncOverflow,
    // what kernels of one chip wait for
    ValueWait,
};

inline constexpr uint64_t kNoTask = ~uint64_t{0};

/// A named fact of a fault: a number or a text.
struct FaultField {
    template <typename Number, typename = std::enable_if_t<std::is_integral_v<Number>>>
    FaultField(const char *field, Number value) : name(field), is_text(false), text(std::to_string(value)) {}
    FaultField(const char *field, std::string value) : name(field), is_text(true), text(std::move(value)) {}
    FaultField(const char *field, const char *value) : FaultField(field, std::string(value ? value : "(null)")) {}

    const char *name;
    bool is_text;
    std::string text;
};

struct Fault {
    FaultKind kind = FaultKind::None;
    uint64_t task = kNoTask;    // number of the task, counted from 0 in submission order
    uint64_t task_id = kNoTask; // ring << 32 | number in the ring
    std::string kernel = {};
    std::string fields = {};  // members of a JSON object
    std::string details = {}; // the same, of larger things: `,"group":{...}`

    Fault() = default;
    explicit Fault(FaultKind fault, std::initializer_list<FaultField> facts = {});

    explicit operator bool() const { return kind != FaultKind::None; }
    /// The whole as JSON text; without `fields` and `details` it takes little room.
    std::string json(bool whole = true) const;
};

/// Ends Runtime calls with a fault; never leaves the C++ library's own frames.
struct FaultError {
    Fault fault;
};
[[noreturn]] void throw_fault(FaultKind kind, std::initializer_list<FaultField> facts = {});

/// printf into a string.
__attribute__((format(printf, 1, 2))) std::string format(const char *pattern, ...);

} // namespace pypto::runtime
