// Loads an orchestration, finds out its generation, and calls it.
#include "submission/orchestration.h"

#include "execution/shared_object.h"

#include <dlfcn.h>

namespace pypto::runtime {

namespace {

// Calls the function at a symbol, which takes just these arguments, or fewer. A pointer stands for a reference.
template <typename Result, typename... Arguments> Result call_symbol(void *symbol, Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(symbol)(arguments...);
}

} // namespace

EntryArgs EntryParameters::objects() const {
    return {tensors.data(), static_cast<int32_t>(tensors.size()), scalars.data(), static_cast<int32_t>(scalars.size())};
}

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
    bind_ = dlsym(handle, "pypto_bind_orchestration");
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
    const auto abi = call_symbol<uint32_t>(bind_, operations, runtime);
    if (abi != kOrchestrationAbi)
        throw_fault(FaultKind::OrchestrationAbi, {{"path", path_}, {"abi", abi}, {"own", kOrchestrationAbi}});
}

int Orchestration::expected_args(const EntryParameters &parameters) const {
    if (config_ == nullptr || builds_graph_)
        return 0;
    const auto count_from = [this](auto... arguments) {
        return call_symbol<PTO2OrchestrationConfig>(config_, arguments...).expected_arg_count;
    };
    const EntryArgs args = parameters.objects();
    switch (variant_) {
    case Variant::Objects:
        return count_from(&args);
    case Variant::Array:
        return count_from(parameters.arguments.data());
    default:
        return count_from(parameters.words.data(), static_cast<int>(parameters.words.size()));
    }
}

// Entries of spring 2026 may take two more ints, the number of orchestration threads and this one's; passing them to an
// entry that does not is harmless.
int Orchestration::call(PTO2Runtime *runtime, const EntryParameters &parameters) const {
    const int count = static_cast<int>(parameters.words.size());
    const EntryArgs args = parameters.objects();
    if (builds_graph_) {
        if (variant_ == Variant::Array)
            return call_symbol<int>(entry_, runtime, parameters.arguments.data(), count);
        if (parameters.one_list) // nothing else tells addresses and numbers from objects
            return call_symbol<int>(entry_, runtime, parameters.words.data(), count);
        return call_symbol<int>(entry_, runtime, &args);
    }
    switch (variant_) {
    case Variant::Objects:
        call_symbol<void>(entry_, &args, 1, 0);
        break;
    case Variant::Array:
        call_symbol<void>(entry_, parameters.arguments.data(), 1, 0);
        break;
    case Variant::Words:
        call_symbol<void>(entry_, parameters.words.data(), count, 1, 0);
        break;
    case Variant::WordsWithRuntime:
        call_symbol<void>(entry_, runtime, parameters.words.data(), count, 1, 0);
        break;
    }
    return 0;
}

} // namespace pypto::runtime
