// A fault of a run as data: a kind, and the fields of its text in pypto_build/runtime/faults.py.
#pragma once

#include "layouts.h" // FaultKind

#include <initializer_list>
#include <string>
#include <type_traits>

namespace pypto::runtime {

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
