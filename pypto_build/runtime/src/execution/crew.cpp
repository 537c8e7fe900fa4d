#include "execution/crew.h"

#include "crash/crash.h"

namespace pypto::runtime {

Crew::~Crew() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const std::unique_ptr<Helper> &helper : helpers_) {
            helper->stop = true;
            helper->wake.notify_one();
        }
    }
    for (const std::unique_ptr<Helper> &helper : helpers_)
        helper->thread.join();
}

void Crew::run(const std::vector<Job> &jobs, Core &caller) {
    int open = static_cast<int>(jobs.size()) - 1;
    std::condition_variable all_done;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (size_t i = 1; i < jobs.size(); ++i) {
            if (idle_.empty()) {
                helpers_.push_back(std::make_unique<Helper>());
                Helper &fresh = *helpers_.back();
                fresh.core = make_core_();
                fresh.thread = std::thread([this, &fresh] { serve(fresh); });
                idle_.push_back(&fresh);
            }
            Helper &helper = *idle_.back();
            idle_.pop_back();
            helper.job = &jobs[i];
            helper.open = &open;
            helper.all_done = &all_done;
            helper.wake.notify_one();
        }
    }
    jobs[0](caller);
    std::unique_lock<std::mutex> lock(mutex_);
    all_done.wait(lock, [&open] { return open == 0; });
}

void Crew::serve(Helper &helper) {
    const SignalStack signal_stack;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
        helper.wake.wait(lock, [&helper] { return helper.job != nullptr || helper.stop; });
        if (helper.job == nullptr)
            return;
        const Job &job = *helper.job;
        lock.unlock();
        job(*helper.core);
        lock.lock();
        helper.job = nullptr;
        idle_.push_back(&helper);
        if (--*helper.open == 0)
            helper.all_done->notify_one();
    }
}

} // namespace pypto::runtime
