// Writes tasks and edges with their reasons.
#include "records/graph_record.h"

namespace pypto::runtime {

namespace {

constexpr const char *kTypeOfTag[] = {"INPUT", "OUTPUT", "INOUT", "OUTPUT_EXISTING", "UNKNOWN"};
constexpr const char *kSources[] = {"explicit", "creator", "tensormap", "strict"};

// FNV-1a over the buffer's address and version, as readers of the file expect.
uint64_t tensor_id(const ChipTensor &tensor) {
    uint64_t hash = 0xcbf29ce484222325ull;
    const auto mix = [&hash](uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) {
            hash ^= value >> (8 * i) & 0xff;
            hash *= 0x100000001b3ull;
        }
    };
    mix(tensor.buffer.addr, 8);
    mix(static_cast<uint32_t>(tensor.version), 4);
    return hash;
}

void write_region(JsonWriter &json, const std::string &prefix, const ChipTensor &tensor, bool with_type) {
    if (with_type)
        json.key(prefix + "dtype").text(get_dtype_name(tensor.dtype));
    json.key(prefix + "shape").list(tensor.shapes, tensor.ndims);
    json.key(prefix + "start_offset").wide(tensor.start_offset);
    json.key(prefix + "strides").list(tensor.strides, tensor.ndims);
}

} // namespace

// A producer that is named several times stands in the file once, with all kinds of waiting; each overlap stands for
// itself; a creator is only added where nothing else names it.
void GraphRecord::edge(const Edge &edge) {
    for (PendingEdge &known : pending_) {
        if (edge.source == EdgeSource::TensorMap)
            break;
        if (known.edge.producer != edge.producer ||
            (edge.source != EdgeSource::Creator && known.edge.source != edge.source))
            continue;
        if (known.edge.source != EdgeSource::TensorMap)
            known.edge.flags |= edge.flags;
        return;
    }
    pending_.push_back({edge, copy(edge.consumer), copy(edge.writer)});
}

void GraphRecord::submitted(const Task &task) {
    if (task.number == kNoNumber)
        return; // an allocation: it appears as the creator of its tensors only
    add_task(task);
    for (const PendingEdge &pending : pending_)
        add_edge(pending, task);
    pending_.clear();
}

void GraphRecord::add_task(const Task &task) {
    tasks_.newline().open('{').key("task_id").wide(task.id);
    tasks_.key("scope").text(task.manual_scope ? "manual" : "auto");
    tasks_.key("early_dispatch").boolean(task.early_dispatch);
    tasks_.key("kernel_ids").list(task.kernels, 3);
    tasks_.key("block_num").number(task.block_num);
    tasks_.key("args").open('[');
    for (size_t i = 0; i < task.arguments.size(); ++i) {
        const TaskArgument &argument = task.arguments[i];
        if (argument.kind == ArgEntry::SCALAR)
            continue;
        const ChipTensor &tensor = task.tensors[argument.index];
        tasks_.open('{').key("idx").number(i);
        tasks_.key("type").text(kTypeOfTag[static_cast<int>(argument.tag)]);
        if (argument.tag != TensorArgType::OUTPUT) {
            tasks_.key("tensor_id").wide(tensor_id(tensor));
            write_region(tasks_, "", tensor, true);
            add_tensor(tensor);
        }
        tasks_.close('}');
    }
    tasks_.close(']').close('}');
}

void GraphRecord::add_edge(const PendingEdge &pending, const Task &task) {
    const Edge &edge = pending.edge;
    edges_.newline().open('{').key("pred").wide(edge.producer).key("succ").wide(task.id);
    edges_.key("arg").number(edge.arg);
    edges_.key("source").text(kSources[static_cast<int>(edge.source)]);
    edges_.key("flags").open('[');
    if (edge.flags & DEP_WAIT)
        edges_.text("wait");
    if (edge.flags & DEP_RETAIN)
        edges_.text("retain");
    edges_.close(']');
    if (edge.source == EdgeSource::TensorMap)
        edges_.key("overlap").text(edge.overlap == Overlap::Covered ? "covered" : "other");
    if (edge.consumer) {
        edges_.key("tensor_id").wide(tensor_id(pending.consumer));
        write_region(edges_, "consumer_", pending.consumer, true);
        add_tensor(pending.consumer);
    }
    if (edge.writer)
        write_region(edges_, "producer_", pending.writer, false);
    edges_.close('}');
}

void GraphRecord::add_tensor(const ChipTensor &tensor) {
    const uint64_t id = tensor_id(tensor);
    if (!known_tensors_.insert(id).second)
        return;
    tensors_.newline().open('{').key("tensor_id").wide(id);
    tensors_.key("buffer_addr").wide(tensor.buffer.addr);
    tensors_.key("version").number(tensor.version);
    tensors_.key("dtype").text(get_dtype_name(tensor.dtype));
    tensors_.key("buffer_numel").wide(tensor.buffer.size / element_bytes(tensor.dtype)).close('}');
}

void GraphRecord::write(const std::string &directory) const {
    make_directories(directory);
    write_file(directory + "/deps.json", text());
}

std::string GraphRecord::text() const {
    return "{\"tasks\":[" + tasks_.str() + "],\n\"tensors\":[" + tensors_.str() + "],\n\"edges\":[" + edges_.str() +
           "]}\n";
}

} // namespace pypto::runtime
