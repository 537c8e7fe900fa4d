// Prints the lines on time.
#include "records/timing_record.h"

#include "base/clock.h"
#include "base/fault.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <unistd.h>

namespace pypto::runtime {

namespace {

constexpr const char *kHost = "";
constexpr const char *kDevice = " clk=dev"; // counted from the start of the run

/// Prints the spans of one run, innermost first.
class Spans {
public:
    explicit Spans(const Log &log) : log_(log), pid_(static_cast<int>(getpid())), run_(++runs_) {}

    void anchor() const {
        timespec wall{};
        clock_gettime(CLOCK_REALTIME, &wall);
        const long long now = monotonic_ns();
        log_.timed_line(LogLevel::Timing, format("run: [CLOCK_ANCHOR] v=1 pid=%d mono_ns=%lld wall_ns=%lld", pid_, now,
                                                 static_cast<long long>(wall.tv_sec) * 1'000'000'000 + wall.tv_nsec));
    }
    void span(int depth, const std::string &name, int64_t start_ns, int64_t end_ns, const char *clock) const {
        log_.timed_line(LogLevel::Timing,
                        format("run: [STRACE] v=1 pid=%d tid=%d inv=%d hid=0 depth=%d name=%s ts=%lld dur=%lld%s", pid_,
                               pid_, run_, depth, name.c_str(), static_cast<long long>(start_ns),
                               static_cast<long long>(end_ns - start_ns), clock));
    }

private:
    static std::atomic<int> runs_; // of this process
    const Log &log_;
    int pid_;
    int run_;
};

std::atomic<int> Spans::runs_{0};

} // namespace

void TimingRecord::served(const Service &service) {
    if (first_task_ns_ == 0)
        first_task_ns_ = service.taken_ns;
    if (service.timing_slot < 0)
        return;
    Slot &slot = slots_[service.timing_slot];
    slot.first_ns = slot.first_ns ? std::min(slot.first_ns, service.taken_ns) : service.taken_ns;
    slot.last_ns = std::max(slot.last_ns, service.ended_ns);
}

void TimingRecord::write(const RunTimes &times, const Log &log) const {
    const Spans spans(log);
    const std::string device = "chip.run.runner_run.device_wall";
    const auto part = [&](const std::string &name, int64_t start_ns, int64_t end_ns) {
        spans.span(3, device + "." + name, start_ns - times.start_ns, end_ns - times.start_ns, kDevice);
    };
    spans.anchor();
    part("orch", times.start_ns, times.orchestrated_ns);
    if (first_task_ns_)
        part("sched", first_task_ns_, times.end_ns);
    for (int i = 0; i < 16; ++i)
        if (slots_[i].first_ns)
            part("task_slot_" + std::to_string(i), slots_[i].first_ns, slots_[i].last_ns);
    spans.span(2, device, 0, times.end_ns - times.start_ns, kDevice);
    spans.span(1, "chip.run.runner_run", times.start_ns, times.end_ns, kHost);
    spans.span(0, "chip.run", times.start_ns, times.end_ns, kHost);
}

} // namespace pypto::runtime
