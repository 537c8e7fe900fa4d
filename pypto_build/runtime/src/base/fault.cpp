// Faults as JSON text.
#include "base/fault.h"

#include "base/json_writer.h"

#include <cstdarg>
#include <cstdio>

namespace pypto::runtime {

Fault::Fault(FaultKind fault, std::initializer_list<FaultField> facts) : kind(fault) {
    JsonWriter json;
    for (const FaultField &fact : facts) {
        json.key(fact.name);
        fact.is_text ? json.text(fact.text) : json.raw(fact.text);
    }
    fields = json.str();
}

std::string Fault::json(bool whole) const {
    JsonWriter json;
    json.open('{').key("kind").number(static_cast<int32_t>(kind));
    if (task != kNoTask)
        json.key("task").number(task);
    if (task_id != kNoTask)
        json.key("task_id").number(task_id);
    if (!kernel.empty())
        json.key("kernel").text(kernel);
    return json.str() + (whole ? ",\"fields\":{" + fields + "}" + details : "") + "}";
}

void throw_fault(FaultKind kind, std::initializer_list<FaultField> facts) {
    throw FaultError{Fault(kind, facts)};
}

std::string format(const char *pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
    va_end(arguments);
    std::string text(static_cast<size_t>(length > 0 ? length : 0), '\0');
    std::vsnprintf(text.data(), text.size() + 1, pattern, again);
    va_end(again);
    return text;
}

} // namespace pypto::runtime
