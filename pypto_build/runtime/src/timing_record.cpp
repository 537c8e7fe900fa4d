#include "timing_record.h"

#include "clock.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace pypto::runtime {

void TimingRecord::served(const Service &service) {
    if (service.timing_slot < 0)
        return;
    Slot &slot = slots_[service.timing_slot];
    slot.first_ns = slot.first_ns ? std::min(slot.first_ns, service.taken_ns) : service.taken_ns;
    slot.last_ns = std::max(slot.last_ns, service.ended_ns);
}

void TimingRecord::write() const {
    const int pid = static_cast<int>(getpid());
    for (int i = 0; i < 16; ++i)
        if (slots_[i].first_ns)
            std::fprintf(stderr,
                         "[mono_ns=%lld][T0x0][TIMING] run: [STRACE] v=1 pid=%d tid=%d inv=1 hid=0 depth=3 "
                         "name=chip.run.runner_run.device_wall.task_slot_%d ts=%lld dur=%lld clk=dev\n",
                         static_cast<long long>(monotonic_ns()), pid, pid, i,
                         static_cast<long long>(slots_[i].first_ns - origin_ns_),
                         static_cast<long long>(slots_[i].last_ns - slots_[i].first_ns));
}

} // namespace pypto::runtime
