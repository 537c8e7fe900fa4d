// Writes each argument before and after its task, in simpler's format.
#include "records/args_record.h"

#include "execution/executor.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unistd.h>

namespace pypto::runtime {

namespace {

constexpr DumpNames kArgs{"args_dump",       "args_dump.json", "args.bin", "args",
                          "dump_args_level", "total_args",     "args",     false};
constexpr DumpNames kTensors{"tensor_dump",       "tensor_dump.json", "tensor_dump.bin", "tensors",
                             "dump_tensor_level", "total_tensors",    "tensors",         true};

constexpr const char *kStages[] = {"before_dispatch", "after_completion"};
constexpr const char *kRoles[] = {"input", "output", "inout"};

// Scalars travel zero-extended.
int64_t signed_value(DataType dtype, uint64_t value) {
    switch (dtype) {
    case DataType::INT32:
        return static_cast<int32_t>(value);
    case DataType::INT16:
        return static_cast<int16_t>(value);
    case DataType::INT8:
        return static_cast<int8_t>(value);
    default:
        return static_cast<int64_t>(value);
    }
}

// A view as a part of a row-major whole: the whole's shape and where the part begins in it. What is no such part is
// described as a whole of its own.
struct Whole {
    uint32_t shape[MAX_TENSOR_DIMS];
    uint32_t offsets[MAX_TENSOR_DIMS] = {};

    explicit Whole(const ChipTensor &tensor) {
        std::copy_n(tensor.shapes, tensor.ndims, shape);
        const bool broadcast =
            std::find(tensor.strides, tensor.strides + tensor.ndims, 0u) != tensor.strides + tensor.ndims;
        if (broadcast || (tensor.is_contiguous && tensor.start_offset == 0))
            return;
        const uint32_t last = tensor.ndims - 1;
        uint32_t whole[MAX_TENSOR_DIMS];
        whole[0] = static_cast<uint32_t>(tensor.buffer.size / element_bytes(tensor.dtype) / tensor.strides[0]);
        bool nested = tensor.strides[last] == 1;
        for (uint32_t d = 1; d <= last; ++d) {
            nested = nested && tensor.strides[d - 1] % tensor.strides[d] == 0;
            whole[d] = tensor.strides[d - 1] / tensor.strides[d];
        }
        if (!nested)
            return;
        std::copy_n(whole, tensor.ndims, shape);
        uint64_t rest = tensor.start_offset;
        for (uint32_t d = 0; d <= last; rest %= tensor.strides[d++])
            offsets[d] = static_cast<uint32_t>(rest / tensor.strides[d]);
    }
};

bool has_payload(const ChipTensor &tensor) {
    return tensor.buffer.addr != 0 && tensor.numel() > 0;
}

} // namespace

const DumpNames *dump_names(const std::string &format) {
    return format == "args" ? &kArgs : format == "tensor" ? &kTensors : nullptr;
}

ArgsRecord::ArgsRecord(const Settings &settings, const DumpNames &names, const KernelLibrary &kernels)
    : directory_(settings.output_dir + "/" + names.directory), level_(settings.dump_args),
      selection_(settings.dump_select, settings.dump_tasks), names_(names), kernels_(kernels) {
    make_directories(directory_);
    bin_.open(directory_ + "/" + names.bin);
}

ArgsRecord::~ArgsRecord() {
    bin_.drop();
    rmdir(directory_.c_str()); // nothing was recorded: leave no empty directory
}

void ArgsRecord::record(const Task &task, Stage stage) {
    if (!task.has_kernel || !selection_.task(task))
        return;
    uint32_t scalar = 0;
    uint32_t tensor = 0;
    for (const TaskArgument &argument : task.arguments) {
        const bool is_scalar = argument.kind == ArgEntry::SCALAR;
        const uint32_t slot = is_scalar ? static_cast<uint32_t>(task.tensors.size()) + scalar++ : tensor++;
        const Role role = is_scalar ? Role::Input : role_of(task, argument);
        if (!selection_.argument(task, slot, kernels_) || (level_ == 1 && argument.dump == 0) ||
            role == (stage == Stage::Before ? Role::Output : Role::Input))
            continue;
        JsonWriter json;
        json.open('{').key("arg_index").number(slot).key("role").text(kRoles[static_cast<int>(role)]);
        json.key("stage").text(kStages[static_cast<int>(stage)]).key("kind").text(is_scalar ? "scalar" : "tensor");
        if (is_scalar)
            add_scalar(json, argument.dtype, task.scalars[argument.index]);
        else
            add_tensor(json, task.tensors[argument.index], level_ != 3 || argument.dump != 0);
        if (argument.dump == 2)
            json.key("arg_index_ambiguous").boolean(true);
        add_entries(task, stage, slot, role, json.close('}').str());
    }
}

// One for the task, or one for each of its kernels; `fields` is an object with what they have in common.
void ArgsRecord::add_entries(const Task &task, Stage stage, uint32_t slot, Role role, const std::string &fields) {
    const std::string head = format("{\"task_id\":\"0x%016llx\",", static_cast<unsigned long long>(task.id));
    std::string kernels;
    for (int member = 0; member < kMembers; ++member) {
        const int32_t id = task.kernels[member];
        if (id < 0)
            continue;
        kernels += (kernels.empty() ? "" : ",") + std::to_string(id);
        if (names_.by_kernel)
            entries_.push_back({task.id, stage, slot, role, entries_.size(),
                                head + format("\"subtask_id\":%d,\"func_id\":%d,", member, id) + fields.substr(1)});
    }
    if (!names_.by_kernel)
        entries_.push_back(
            {task.id, stage, slot, role, entries_.size(), head + "\"func_id\":[" + kernels + "]," + fields.substr(1)});
}

// Returns the direction of a tensor: by the kernel's signature, or by the task's declaration without one.
ArgsRecord::Role ArgsRecord::role_of(const Task &task, const TaskArgument &argument) {
    const Kernel *widest = nullptr;
    for (const int32_t id : task.kernels)
        if (const Kernel *kernel = kernels_.find(id); kernel && kernel->has_signature)
            if (!widest || kernel->signature.size() > widest->signature.size())
                widest = kernel;
    if (widest && argument.index < widest->signature.size())
        return static_cast<Role>(widest->signature[argument.index]);
    if (!widest)
        if (const std::string name = kernels_.names(task.kernels);
            std::find(unsigned_.begin(), unsigned_.end(), name) == unsigned_.end())
            unsigned_.push_back(name);
    switch (argument.tag) {
    case TensorArgType::INPUT:
        return Role::Input;
    case TensorArgType::OUTPUT:
    case TensorArgType::OUTPUT_EXISTING:
        return Role::Output;
    default:
        return Role::InOut;
    }
}

void ArgsRecord::add_scalar(JsonWriter &json, DataType dtype, uint64_t value) {
    json.key("dtype").text(get_dtype_name(dtype)).key("value");
    if (dtype == DataType::FLOAT32) {
        float real;
        std::memcpy(&real, &value, sizeof(real));
        json.real(real);
    } else if (dtype == DataType::BOOL) {
        json.boolean(value != 0);
    } else {
        json.number(signed_value(dtype, value));
    }
    json.key("is_contiguous").boolean(true).key("shape").open('[').close(']').key("strides").open('[').close(']');
    json.key("start_offset").number(0);
    if (names_.by_kernel)
        json.key("raw_shape").open('[').close(']').key("offsets").open('[').close(']');
    json.key("numel").number(1).key("bin_offset").number(0).key("bin_size").number(0);
    json.key("truncated").boolean(false).key("overwritten").boolean(false);
}

void ArgsRecord::add_tensor(JsonWriter &json, const ChipTensor &tensor, bool payload) {
    json.key("dtype").text(get_dtype_name(tensor.dtype));
    json.key("is_contiguous").boolean(tensor.is_contiguous);
    json.key("shape").list(tensor.shapes, tensor.ndims).key("strides").list(tensor.strides, tensor.ndims);
    json.key("start_offset").number(tensor.start_offset);
    if (names_.by_kernel) {
        const Whole whole(tensor);
        json.key("raw_shape").list(whole.shape, tensor.ndims).key("offsets").list(whole.offsets, tensor.ndims);
    }
    json.key("numel").number(tensor.numel());
    const bool stored = payload && has_payload(tensor);
    json.key("bin_offset").number(stored ? append(tensor) : 0);
    json.key("bin_size").number(stored ? tensor.nbytes() : 0);
    json.key("truncated").boolean(false).key("overwritten").boolean(false);
}

// Appends the tensor's elements in row-major order; returns where they start.
uint64_t ArgsRecord::append(const ChipTensor &tensor) {
    const uint64_t start = bin_bytes_;
    const uint32_t bytes = element_bytes(tensor.dtype);
    const uint8_t *base = tensor.data_as<uint8_t>();
    const uint32_t last = tensor.ndims - 1;
    const uint64_t row = tensor.shapes[last];
    uint32_t index[MAX_TENSOR_DIMS] = {};
    for (uint64_t done = 0; done < tensor.numel(); done += row) {
        uint64_t offset = 0;
        for (uint32_t d = 0; d < last; ++d)
            offset += static_cast<uint64_t>(index[d]) * tensor.strides[d];
        if (tensor.strides[last] == 1)
            bin_.append(base + offset * bytes, bytes * row);
        else
            for (uint64_t i = 0; i < row; ++i)
                bin_.append(base + (offset + i * tensor.strides[last]) * bytes, bytes);
        for (uint32_t d = last; d-- > 0 && ++index[d] == tensor.shapes[d];)
            index[d] = 0;
    }
    bin_bytes_ += tensor.nbytes();
    return start;
}

void ArgsRecord::write() {
    if (entries_.empty())
        return;
    std::sort(entries_.begin(), entries_.end(), [](const Entry &a, const Entry &b) {
        return std::tie(a.task, a.stage, a.arg, a.role, a.number) < std::tie(b.task, b.stage, b.arg, b.role, b.number);
    });
    const auto count = [this](auto matches) { return std::count_if(entries_.begin(), entries_.end(), matches); };
    const std::string suffix = std::string("_") + names_.suffix;
    JsonWriter json;
    json.open('{').key("run_dir").text(names_.directory);
    json.key("bin_format").open('{').key("type").text("logical_contiguous").key("byte_order").text("little_endian");
    json.close('}').key(names_.level).number(level_);
    json.key(names_.total).number(entries_.size());
    for (const Stage stage : {Stage::Before, Stage::After})
        json.key(kStages[static_cast<int>(stage)]).number(count([&](const Entry &entry) {
            return entry.stage == stage;
        }));
    for (const Role role : {Role::Input, Role::Output, Role::InOut})
        json.key(kRoles[static_cast<int>(role)] + suffix).number(count([&](const Entry &entry) {
            return entry.role == role;
        }));
    json.key("truncated" + suffix).number(0).key("dropped_records").number(0);
    json.key("dropped_overwrite").number(0).key("bin_file");
    const bool with_bin = level_ != 3 || bin_bytes_ > 0;
    if (with_bin)
        json.text(names_.bin);
    else
        json.null();
    std::string text = json.key(names_.items).open('[').str();
    for (size_t i = 0; i < entries_.size(); ++i)
        text += (i ? ",\n" : "\n") + entries_[i].json;
    text += "]}\n";
    if (with_bin)
        bin_.finish();
    write_file(directory_ + "/" + names_.json, text);
}

} // namespace pypto::runtime
