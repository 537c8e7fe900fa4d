#include "barrier.h"

namespace pypto::runtime {

// Somebody waits, and a member that should come has returned already.
bool Barrier::stuck() const {
    for (int cores = 0; cores < 3; ++cores) {
        const bool missed = cores == 2 ? left_[0] + left_[1] > 0 : left_[cores] > 0;
        if (meetings_[cores].arrived > 0 && missed)
            return true;
    }
    return false;
}

Barrier::Result Barrier::wait(Cores cores) {
    std::unique_lock<std::mutex> lock(mutex_);
    Meeting &meeting = meetings_[static_cast<int>(cores)];
    const uint64_t number = meeting.number;
    if (++meeting.arrived >= expected(static_cast<int>(cores)) && !stuck()) {
        meeting.arrived = 0;
        ++meeting.number;
        changed_.notify_all();
        return Result::Ok;
    }
    if (!aborted_ && stuck())
        return Result::Deadlock;
    changed_.wait(lock, [&] { return aborted_ || meeting.number != number; });
    return meeting.number != number ? Result::Ok : Result::Aborted;
}

bool Barrier::leave(bool is_vector) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int kind = is_vector ? 0 : 1;
    --active_[kind];
    ++left_[kind];
    return !aborted_ && stuck();
}

void Barrier::abort() {
    const std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
}

} // namespace pypto::runtime
