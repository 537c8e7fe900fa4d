// The records of a checked kernel, kept by its core with its findings; the list of all cores.
#include "checking/check_record.h"
#include "checking/source_line.h"
#include "execution/executor.h"

#include <cstring>

namespace pypto::runtime {

namespace {

constexpr const char *kPipeNames[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "ALL", "MTE4", "MTE5", "V2", "FIX"};

CoreCheck &recorder_of(PyptoCoreContext *context) {
    return *static_cast<Activation *>(context->runtime)->check;
}

void hook_tiles(PyptoCoreContext *context, const char *instruction, uint32_t pipe, const PyptoTileAccess *operands,
                uint32_t count) {
    recorder_of(context).tiles(instruction, pipe, operands, count, __builtin_return_address(0));
}
void hook_global(PyptoCoreContext *context, const char *instruction, uint32_t pipe, const PyptoGlobalAccess *access) {
    recorder_of(context).global(instruction, pipe, *access, __builtin_return_address(0));
}
void hook_order(PyptoCoreContext *context, uint32_t kind, uint32_t from, uint32_t to, uint32_t id) {
    recorder_of(context).order(kind, from, to, id, __builtin_return_address(0));
}
void hook_variable(PyptoCoreContext *context, const char *name, const PyptoVariable *variable) {
    recorder_of(context).variable(name, *variable);
}
void hook_clean(PyptoCoreContext *context, const void *line) {
    recorder_of(context).clean(line);
}
void hook_plain(PyptoCoreContext *context, const void *place, uint64_t bytes, uint32_t access, void *code) {
    recorder_of(context).plain(reinterpret_cast<uint64_t>(place), bytes, access, code);
}
constexpr PyptoCheck kHooks{hook_tiles, hook_global, hook_order, hook_variable, hook_clean, hook_plain};

// Without judgement: what calls load and store, or, of those that are traced, everything.
void note_global(PyptoCoreContext *context, const char *instruction, uint32_t, const PyptoGlobalAccess *access) {
    recorder_of(context).note_global(*access, instruction, __builtin_return_address(0));
}
void trace_tiles(PyptoCoreContext *context, const char *instruction, uint32_t pipe, const PyptoTileAccess *operands,
                 uint32_t count) {
    recorder_of(context).trace().tiles(instruction, pipe, __builtin_return_address(0), *context, operands, count);
}
void trace_global(PyptoCoreContext *context, const char *instruction, uint32_t pipe, const PyptoGlobalAccess *access) {
    recorder_of(context).trace().global(instruction, pipe, __builtin_return_address(0), *access);
}
void trace_order(PyptoCoreContext *context, uint32_t kind, uint32_t from, uint32_t to, uint32_t id) {
    recorder_of(context).trace().order(kind, from, to, id, __builtin_return_address(0));
}
void keep_tiles(PyptoCoreContext *context, const char *instruction, uint32_t pipe, const PyptoTileAccess *operands,
                uint32_t count) {
    recorder_of(context).instructions().tiles(instruction, pipe, __builtin_return_address(0), *context, operands,
                                              count);
}
void keep_global(PyptoCoreContext *context, const char *instruction, uint32_t pipe, const PyptoGlobalAccess *access) {
    recorder_of(context).instructions().global(instruction, pipe, __builtin_return_address(0), *access);
}
void keep_order(PyptoCoreContext *context, uint32_t kind, uint32_t from, uint32_t to, uint32_t id) {
    recorder_of(context).instructions().order(kind, from, to, id, __builtin_return_address(0));
}
constexpr auto nothing = [](auto...) {};
constexpr PyptoCheck kNotes{nothing, note_global, nothing, nothing, nothing, nothing};
constexpr PyptoCheck kTraces{trace_tiles, trace_global, trace_order, hook_variable, nothing, nothing};
constexpr PyptoCheck kInstructions{keep_tiles, keep_global, keep_order, nothing, nothing, nothing};

} // namespace

const char *pipe_name(uint32_t pipe) {
    return pipe < kPipes ? kPipeNames[pipe] : "?";
}

// --- one core ---

CoreCheck::CoreCheck(Checker &checker)
    : checker_(checker), shadow_(checker.platform_.vector_barriers), trap_(checker.settings_.trap) {
    if (!checker.settings_.memory.empty())
        weak_ = std::make_unique<WeakMemory>(!checker.recording_, checker.settings_.seed);
}

void CoreCheck::begin(Activation &activation) {
    activation_ = &activation;
    activation.check = this;
    activation.context.check = &kHooks;
    ++calls_;
    epoch_ = 1;
    known_ = {};
    phase_ = 0;
    signals_ = false;
    slots_.clear();
    trap_site_ = ~0u;
    const Settings &settings = checker_.settings_;
    traced_ = checker_.traced_.contains(activation.task->number, activation.context.block_idx);
    if (traced_)
        begin_trace();
    unordered_.clear();
    if (settings.instructions) {
        instructions_.begin();
        activation.context.check = &kInstructions;
        return;
    }
    if (!settings.judge) {
        activation.context.check = traced_ ? &kTraces : settings.accesses ? &kNotes : nullptr;
        return;
    }
    shadow_.begin(activation.context);
    if (weak_)
        begin_memory();
}

// The instruction before is over: ends the run if it made what the trap is set for.
void CoreCheck::spring() {
    const uint32_t number = trap_site_;
    trap_site_ = ~0u;
    const std::string made = number == ~0u ? std::string() : trap_.after();
    if (!made.empty())
        fatal("trap", number, made);
}

void CoreCheck::begin_trace() {
    const std::string &directory = checker_.settings_.output_dir;
    try {
        trace_.begin(format("%s/trace.%llu.%d.%d", directory.c_str(),
                            static_cast<unsigned long long>(activation_->task->number), activation_->context.block_idx,
                            activation_->member));
    } catch (const FaultError &error) {
        traced_ = false;
        activation_->executor->report_fault(*activation_, error.fault);
    }
}

void CoreCheck::write_trace() {
    try {
        trace_.write();
    } catch (const FaultError &error) {
        activation_->executor->report_fault(*activation_, error.fault);
    }
}

void CoreCheck::end() {
    if (shadow_.uses_flags() && !unordered_.empty()) {
        const CheckError &first = unordered_.front();
        if (!checker_.recording())
            activation_->executor->report_fault(*activation_,
                                                fault(first.site, first.message, first.subject.other_site));
        else
            for (const CheckError &found : unordered_)
                error(found.kind, found.site, found.message, found.subject);
    }
    if (traced_)
        write_trace();
    if (checker_.settings_.instructions)
        instructions_.end(
            {static_cast<uint32_t>(activation_->task->number), static_cast<uint32_t>(activation_->context.block_idx),
             static_cast<uint32_t>(activation_->member), static_cast<uint32_t>(activation_->kernel->func_id), 0, 0});
    if (signals_)
        signalling_.push_back(static_cast<uint32_t>(activation_->task->number));
    activation_->check = nullptr;
    activation_ = nullptr;
}

uint32_t CoreCheck::site(const char *instruction, void *address) {
    const auto [place, fresh] = places_.try_emplace(reinterpret_cast<uint64_t>(address));
    if (fresh) {
        place->second.number = static_cast<uint32_t>(sites_.size());
        sites_.push_back({reinterpret_cast<uint64_t>(address), activation_->kernel->func_id, instruction});
    }
    return place->second.number;
}

Fault CoreCheck::fault(uint32_t site, std::string message, uint32_t other_site) const {
    const auto line = [&](uint32_t number) {
        return number == ~0u ? std::string() : source_line(reinterpret_cast<const void *>(sites_[number].address));
    };
    return Fault(FaultKind::CheckFailed,
                 {{"text", std::move(message)}, {"line_text", line(site)}, {"written_at", line(other_site)}});
}

void CoreCheck::error(const char *kind, uint32_t site, std::string message, CheckSubject subject) {
    if (!checker_.recording())
        activation_->executor->end_with_fault(*activation_, fault(site, std::move(message), subject.other_site));
    for (CheckError &known : errors_)
        if (known.site == site && known.subject.other_site == subject.other_site &&
            std::strcmp(known.kind, kind) == 0) {
            ++known.count;
            return;
        }
    errors_.push_back(in_call(kind, site, std::move(message), std::move(subject)));
}

void CoreCheck::fatal(const char *kind, uint32_t site, std::string message, CheckSubject subject) {
    error(kind, site, message, std::move(subject));
    activation_->executor->end_with_fault(*activation_, fault(site, std::move(message), ~0u));
}

void CoreCheck::variable(const char *name, const PyptoVariable &variable) {
    if (traced_)
        trace_.variable(name, activation_->context, variable);
}

// --- all cores ---

CoreCheck *Checker::core(int index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<CoreCheck> &core = cores_[index];
    if (!core)
        core = std::make_unique<CoreCheck>(*this);
    return core.get();
}

void Checker::edge(const Edge &edge) {
    if (settings_.instructions && edge.flags & DEP_WAIT)
        waits_.edge(edge.producer);
    if (recording_ && settings_.judge && edge.flags & DEP_WAIT)
        pending_.emplace_back(edge.producer, edge.source);
}

void Checker::submitted(const Task &task) {
    if (settings_.instructions)
        waits_.submitted(task);
    if (!recording_)
        return;
    tasks_.push_back({task.id,
                      task.number,
                      {task.kernels[0], task.kernels[1], task.kernels[2]},
                      task.block_num,
                      task.manual_scope,
                      task.arguments,
                      task.tensors,
                      std::move(pending_),
                      host_waits_.size()});
    pending_.clear();
}

void Checker::waited(const std::vector<ProducerEdge> &producers, bool and_readers) {
    if (!recording_)
        return;
    std::vector<uint64_t> ids;
    for (const ProducerEdge &producer : producers)
        ids.push_back(producer.task);
    host_waits_.emplace_back(std::move(ids), and_readers);
}

} // namespace pypto::runtime
