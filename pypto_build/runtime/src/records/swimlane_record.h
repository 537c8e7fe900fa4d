// chip_swimlane_records.json: when each kernel ran on which core, and when each task was submitted; in the chip's
// clock.
//
// A thread stands for one cluster: core numbers are those of its AIC, then of its two AIV cores.
#pragma once

#include "base/json_writer.h"
#include "base/settings.h"
#include "records/observers.h"

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace pypto::runtime {

class SwimlaneRecord : public OrchestrationObserver, public TaskObserver {
public:
    SwimlaneRecord(const Platform &platform, int level);

    void submitted(const Task &task) override;
    void served(const Service &service) override {
        services_of_.emplace(service.task, services_.size());
        services_.push_back(service);
    }
    bool wants_services() const { return level_ >= 2; }
    void called(const Task &task, int member, int core, int64_t start_ns, int64_t end_ns) override;
    void write(const std::string &directory, int threads) const;
    /// Returns the beginning of its times, in the machine's clock.
    int64_t origin_ns() const { return origin_ns_; }

private:
    struct Call {
        int core;
        int member;
        uint64_t task;
        int64_t start_ns;
        int64_t end_ns;
    };
    struct Submit {
        uint64_t task;
        int64_t start_ns;
        int64_t end_ns;
    };
    struct Row {
        int core;
        int64_t number; // on this core
        const Call *call;
    };
    std::vector<Row> ordered(int threads) const;
    void write_services(JsonWriter &json, int threads) const;
    const Service *service_of(const Call &call) const;
    int64_t cycles(int64_t time_ns) const;

    const Platform &platform_;
    int level_;
    int64_t origin_ns_;
    int64_t last_submit_ns_;
    std::mutex mutex_;
    std::vector<Call> calls_;
    std::vector<Submit> submits_;
    std::vector<Service> services_;
    std::unordered_multimap<uint64_t, size_t> services_of_; // by task
};

} // namespace pypto::runtime
