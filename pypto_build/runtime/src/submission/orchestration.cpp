// Loads an orchestration, finds out its generation, and calls it.
#include "submission/orchestration.h"

#include "execution/shared_object.h"

#include <dlfcn.h>

namespace pypto::runtime {

namespace {

template <typename Function> Function as(void *symbol) {
    return reinterpret_cast<Function>(symbol);
}

} // namespace

void EntryParameters::arrange(const std::string &order) {
    one_list = !order.empty();
    const std::string all = order.empty() ? std::string(tensors.size(), 't') + std::string(scalars.size(), 's') : order;
    size_t tensor = 0;
    size_t scalar = 0;
    for (const char kind : all) {
        EntryArg argument{};
        if (kind == 't' && tensor < tensors.size()) {
            argument.kind = EntryArg::TENSOR;
            argument.tensor = tensors[tensor++];
            argument.scalar = argument.tensor.data;
        } else if (kind == 's' && scalar < scalars.size()) {
            argument.kind = EntryArg::SCALAR;
            argument.scalar = scalars[scalar++];
        } else if (kind == '-') {
            argument.kind = EntryArg::SCALAR; // a parameter that nothing reads
        } else {
            break;
        }
        arguments.push_back(argument);
        words.push_back(argument.scalar);
    }
    if (tensor != tensors.size() || scalar != scalars.size() || all.size() != arguments.size())
        throw_fault(FaultKind::ParameterOrder,
                    {{"count", all.size()}, {"order", all}, {"tensors", tensors.size()}, {"scalars", scalars.size()}});
}

void Orchestration::load(const std::string &path, const std::string &function_name, const std::string &config_name) {
    path_ = path;
    void *handle = load_shared_object(path);
    bind_ = as<uint32_t (*)(const Operations *, PTO2Runtime *)>(dlsym(handle, "pypto_bind_orchestration"));
    if (bind_ == nullptr)
        throw_fault(FaultKind::OtherOrchestration, {{"path", path}});
    const std::string function = function_name.empty() ? "aicpu_orchestration_entry" : function_name;
    entry_ = dlsym(handle, function.c_str());
    if (entry_ == nullptr)
        throw_fault(FaultKind::NoOrchestrationEntry, {{"path", path}, {"name", function}});
    config_ = dlsym(handle, config_name.empty() ? "aicpu_orchestration_config" : config_name.c_str());
    builds_graph_ = dlsym(handle, "pypto_entry_builds_graph") != nullptr;
    if (dlsym(handle, "pypto_entry_takes_runtime"))
        variant_ = Variant::WordsWithRuntime;
    else if (dlsym(handle, "pypto_entry_takes_arg_array"))
        variant_ = Variant::Array;
    else if (dlsym(handle, "pypto_entry_takes_words"))
        variant_ = Variant::Words;
}

void Orchestration::bind(PTO2Runtime *runtime, const Operations *operations) const {
    const uint32_t abi = bind_(operations, runtime);
    if (abi != kOrchestrationAbi)
        throw_fault(FaultKind::OrchestrationAbi, {{"path", path_}, {"abi", abi}, {"own", kOrchestrationAbi}});
}

int Orchestration::expected_args(const EntryParameters &parameters) const {
    if (config_ == nullptr || builds_graph_)
        return 0;
    const int count = static_cast<int>(parameters.words.size());
    const EntryArgs args(parameters.tensors.data(), static_cast<int32_t>(parameters.tensors.size()),
                         parameters.scalars.data(), static_cast<int32_t>(parameters.scalars.size()));
    switch (variant_) {
    case Variant::Objects:
        return as<PTO2OrchestrationConfig (*)(const EntryArgs &)>(config_)(args).expected_arg_count;
    case Variant::Array:
        return as<PTO2OrchestrationConfig (*)(const EntryArg *)>(config_)(parameters.arguments.data())
            .expected_arg_count;
    default:
        return as<PTO2OrchestrationConfig (*)(const uint64_t *, int)>(config_)(parameters.words.data(), count)
            .expected_arg_count;
    }
}

// Entries of spring 2026 may take two more ints, the number of orchestration threads and this one's; passing them to an
// entry that does not is harmless.
int Orchestration::call(PTO2Runtime *runtime, const EntryParameters &parameters) const {
    const int count = static_cast<int>(parameters.words.size());
    const EntryArgs args(parameters.tensors.data(), static_cast<int32_t>(parameters.tensors.size()),
                         parameters.scalars.data(), static_cast<int32_t>(parameters.scalars.size()));
    if (builds_graph_)
        return build_graph(runtime, args, parameters);
    switch (variant_) {
    case Variant::Objects:
        as<void (*)(const EntryArgs &, int, int)>(entry_)(args, 1, 0);
        return 0;
    case Variant::Array:
        as<void (*)(const EntryArg *, int, int)>(entry_)(parameters.arguments.data(), 1, 0);
        return 0;
    case Variant::Words:
        as<void (*)(const uint64_t *, int, int, int)>(entry_)(parameters.words.data(), count, 1, 0);
        return 0;
    case Variant::WordsWithRuntime:
        as<void (*)(PTO2Runtime *, const uint64_t *, int, int, int)>(entry_)(runtime, parameters.words.data(), count, 1,
                                                                             0);
        return 0;
    }
    return 0;
}

int Orchestration::build_graph(PTO2Runtime *runtime, const EntryArgs &args, const EntryParameters &parameters) const {
    const int count = static_cast<int>(parameters.words.size());
    if (variant_ == Variant::Array)
        return as<int (*)(PTO2Runtime *, const EntryArg *, int)>(entry_)(runtime, parameters.arguments.data(), count);
    if (parameters.one_list) // nothing else tells addresses and numbers from objects
        return as<int (*)(PTO2Runtime *, const uint64_t *, int)>(entry_)(runtime, parameters.words.data(), count);
    return as<int (*)(PTO2Runtime *, const EntryArgs &)>(entry_)(runtime, args);
}

} // namespace pypto::runtime
