// Writes the record of the checked build: accesses.json and accesses.bin for pypto_build.diagnose.hazards,
// executed.json for a replay.
#include "base/json_writer.h"
#include "checking/check_record.h"
#include "pypto/tensor_views.h"

#include <dlfcn.h>

namespace pypto::runtime {

// The instructions of all cores, core by core.
std::string Checker::sites() const {
    JsonWriter json;
    for (const auto &[index, core] : cores_)
        for (const CheckSite &site : core->sites_) {
            Dl_info info{};
            dladdr(reinterpret_cast<const void *>(site.address), &info);
            json.newline().open('{').key("kernel").number(site.func_id).key("instruction").text(site.instruction);
            json.key("file").text(info.dli_fname ? info.dli_fname : "");
            json.key("offset").wide(site.address - reinterpret_cast<uint64_t>(info.dli_fbase) - 1).close('}');
        }
    return json.str();
}

// The operands that they were executed with.
std::string Checker::executed() const {
    JsonWriter json;
    uint32_t first_site = 0;
    for (const auto &[index, core] : cores_) {
        for (const ExecutedOperands &one : core->executed_) {
            json.newline().open('[').number(first_site + one.site).open('[');
            for (const int64_t number : one.numbers)
                json.number(number);
            json.close(']').close(']');
        }
        first_site += static_cast<uint32_t>(core->sites_.size());
    }
    return json.str();
}

void Checker::write(const std::string &directory, bool complete) {
    if (settings_.instructions) {
        InstructionFile file;
        for (const auto &[index, core] : cores_)
            file.add(core->instructions_);
        file.write(directory, waits_, complete);
    }
    if (!recording_) {
        if (!settings_.operands)
            return;
        make_directories(directory);
        return write_file(directory + "/executed.json",
                          "{\"sites\":[" + sites() + "],\"executed\":[" + executed() + "]}\n");
    }
    constexpr const char *kTags[] = {"INPUT", "OUTPUT", "INOUT", "OUTPUT_EXISTING", "NO_DEP"};
    constexpr const char *kSources[] = {"explicit", "creator", "tensormap", "strict"};
    JsonWriter json;
    json.open('{').key("schema").number(2).key("complete").boolean(complete);
    json.key("tasks").open('[');
    for (const TaskRow &task : tasks_) {
        json.newline().open('{').key("id").wide(task.id);
        json.key("number").number(task.number == kNoNumber ? -1 : static_cast<int64_t>(task.number));
        json.key("kernels").list(task.kernels, 3).key("block_num").number(task.block_num);
        json.key("manual").boolean(task.manual);
        json.key("host_waits").number(task.host_waits);
        json.key("waits").open('[');
        for (const auto &[producer, source] : task.waits)
            json.open('[').wide(producer).text(kSources[static_cast<int>(source)]).close(']');
        json.close(']').key("args").open('[');
        for (const TaskArgument &argument : task.arguments) {
            if (argument.kind == ArgEntry::SCALAR)
                continue;
            const ChipTensor &tensor = task.tensors[argument.index];
            // By far the most frequent: without names.
            json.row(kTags[static_cast<int>(argument.tag)], tensor.buffer.addr, tensor.buffer.size,
                     tensor.owner_task_id.raw, tensor.start_offset, get_dtype_name(tensor.dtype),
                     element_bytes(tensor.dtype), tensor.manual_dep, extent_of(tensor) * element_bytes(tensor.dtype));
        }
        json.close(']').close('}');
    }
    json.close(']').key("holes").open('[');
    for (const OutputHole &hole : holes_) {
        json.open('{').key("name").text(hole.name).key("address").number(hole.address);
        json.key("bytes").number(hole.bytes).key("count").number(hole.count).key("first").number(hole.first);
        json.key("element").number(hole.element).close('}');
    }
    json.close(']').key("host_waits").open('[');
    for (const auto &[ids, and_readers] : host_waits_) {
        json.open('{').key("readers").boolean(and_readers).key("tasks").open('[');
        for (const uint64_t id : ids)
            json.wide(id);
        json.close(']').close('}');
    }
    json.close(']');
    std::string records;
    uint32_t first_site = 0;
    JsonWriter errors, signalling, late;
    for (const auto &[index, core] : cores_) {
        for (const CheckError &error : core->errors_) {
            errors.newline().open('{').key("kind").text(error.kind).key("message").text(error.message);
            errors.key("site").number(first_site + error.site);
            errors.key("other_site")
                .number(error.subject.other_site == ~0u ? -1 : int64_t{first_site} + error.subject.other_site);
            errors.key("pipe").text(error.subject.pipe).key("other_pipe").text(error.subject.other_pipe);
            errors.key("tile").text(error.subject.tile);
            errors.key("flag").number(error.subject.flag).key("other_flag").number(error.subject.other_flag);
            errors.key("markers").text(error.subject.markers).key("at_end").boolean(error.subject.at_end);
            errors.key("task").number(error.task).key("block").number(error.block);
            errors.key("member").number(error.member).key("count").number(error.count).close('}');
        }
        for (const uint32_t task : core->signalling_)
            signalling.number(task);
        for (const AccessRecord &one : core->late_) {
            late.newline().row(one.task, one.block, one.member, one.phase, first_site + one.site, one.base, one.rows,
                               one.stride, one.length);
        }
        for (AccessRecord &record : core->records_)
            record.site += first_site;
        records.append(reinterpret_cast<const char *>(core->records_.data()),
                       core->records_.size() * sizeof(AccessRecord));
        first_site += static_cast<uint32_t>(core->sites_.size());
    }
    const std::string text = json.str() + ",\"sites\":[" + sites() + "],\"errors\":[" + errors.str() +
                             "],\"executed\":[" + executed() + "],\"signalling\":[" + signalling.str() +
                             "],\"late\":[" + late.str() + "]}\n";
    make_directories(directory);
    write_file(directory + "/accesses.bin", records);
    write_file(directory + "/accesses.json", text);
}

} // namespace pypto::runtime
