// Turns kernel calls into the rows of the timeline, core by core.
#include "records/swimlane_record.h"

#include "base/clock.h"

#include <algorithm>
#include <tuple>

namespace pypto::runtime {

namespace {

int core_number(int thread, int member, int threads) {
    return member == 0 ? thread : threads + 2 * thread + (member - 1);
}

} // namespace

SwimlaneRecord::SwimlaneRecord(const Platform &platform, int level)
    : platform_(platform), level_(level), origin_ns_(monotonic_ns()), last_submit_ns_(origin_ns_) {}

int64_t SwimlaneRecord::cycles(int64_t time_ns) const {
    return static_cast<int64_t>(static_cast<double>(time_ns - origin_ns_) * static_cast<double>(platform_.clock_hz) /
                                1e9);
}

void SwimlaneRecord::submitted(const Task &task) {
    const int64_t now = monotonic_ns();
    submits_.push_back({task.id, last_submit_ns_, now});
    last_submit_ns_ = now;
}

void SwimlaneRecord::called(const Task &task, int member, int core, int64_t start_ns, int64_t end_ns) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back({core, member, task.id, start_ns, end_ns});
}

// The unit that this call was part of; members of groups run on other cores than the thread that took the unit.
const Service *SwimlaneRecord::service_of(const Call &call) const {
    const Service *best = nullptr;
    const auto range = services_of_.equal_range(call.task);
    for (auto found = range.first; found != range.second; ++found) {
        const Service &service = services_[found->second];
        if (service.begun_ns <= call.start_ns && service.ended_ns >= call.end_ns &&
            (best == nullptr || service.core == call.core))
            best = &service;
    }
    return best;
}

// By core, then by time; calls are numbered from 1 on each core.
std::vector<SwimlaneRecord::Row> SwimlaneRecord::ordered(int threads) const {
    std::vector<Row> rows;
    for (const Call &call : calls_)
        rows.push_back({core_number(call.core, call.member, threads), 0, &call});
    std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
        return std::tie(a.core, a.call->start_ns) < std::tie(b.core, b.call->start_ns);
    });
    for (size_t i = 0; i < rows.size(); ++i)
        rows[i].number = i > 0 && rows[i - 1].core == rows[i].core ? rows[i - 1].number + 1 : 1;
    return rows;
}

// Writes each thread's work besides running kernels: taking units from the queue, and releasing dependents.
void SwimlaneRecord::write_services(JsonWriter &json, int threads) const {
    for (int thread = 0; thread < threads; ++thread) {
        json.newline().open('[');
        int64_t turn = 0;
        for (const Service &service : services_) {
            if (service.core != thread)
                continue;
            const auto phase = [&](const char *kind, int64_t from, int64_t to) {
                json.newline().open('{').key("kind").text(kind).key("start_cycles").number(cycles(from));
                json.key("end_cycles").number(cycles(to)).key("loop_iter").number(turn);
                json.key("tasks_processed").number(1).key("task_id").number(service.task);
            };
            phase("dispatch", service.taken_ns, service.begun_ns);
            json.key("pop_hit").number(1).key("pop_miss").number(0).close('}');
            phase("complete", service.ended_ns, service.done_ns);
            json.close('}');
            if (service.kind != Service::Kernels) {
                phase(service.kind == Service::Dummy ? "dummy_task" : "predicated_skip", service.ended_ns,
                      service.ended_ns);
                json.close('}');
            }
            ++turn;
        }
        json.close(']');
    }
}

void SwimlaneRecord::write(const std::string &directory, int threads) const {
    JsonWriter json;
    json.open('{').key("chip_swimlane_level").number(level_);
    json.key("metadata").open('{').key("clock_freq_hz").number(platform_.clock_hz);
    json.key("num_cores").number(3 * threads).key("core_types").open('[');
    for (int core = 0; core < 3 * threads; ++core)
        json.text(core < threads ? "aic" : "aiv");
    json.close(']').key("core_to_thread").open('[');
    for (int core = 0; core < 3 * threads; ++core)
        json.number(core < threads ? core : (core - threads) / 2);
    json.close(']').close('}');
    const std::vector<Row> rows = ordered(threads);
    json.key("aicore_tasks").open('[');
    for (const Row &row : rows)
        json.newline().row(row.core, row.call->task, row.number, cycles(row.call->start_ns), cycles(row.call->end_ns),
                           0);
    json.close(']').key("aicpu_tasks").open('[');
    for (const Row &row : rows) {
        const Service *service = service_of(*row.call);
        json.newline().row(row.core, row.number, cycles(service ? service->taken_ns : row.call->start_ns),
                           cycles(service ? service->done_ns : row.call->end_ns));
    }
    json.close(']').key("aicpu_scheduler_phases").open('[');
    if (level_ >= 3)
        write_services(json, threads);
    json.close(']');
    json.key("aicpu_orchestrator_phases").open('[');
    if (level_ >= 4) {
        json.open('[');
        for (size_t i = 0; i < submits_.size(); ++i) {
            json.newline().open('{').key("submit_idx").number(i);
            json.key("task_id").number(submits_[i].task);
            json.key("start_cycles").number(cycles(submits_[i].start_ns));
            json.key("end_cycles").number(cycles(submits_[i].end_ns)).close('}');
        }
        json.close(']');
    }
    json.close(']').close('}').newline();
    make_directories(directory);
    write_file(directory + "/chip_swimlane_records.json", json.str());
}

} // namespace pypto::runtime
