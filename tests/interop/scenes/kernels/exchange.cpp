// Sends x to the other rank's window, says so, waits for its x, and adds the two.
#include <cstdint>

#include <pto/pto-inst.hpp>

#include "platform_comm/comm_context.h"
#include "tensor.h"

using namespace pto;

static float *data(int64_t word) {
    ChipTensor *tensor = reinterpret_cast<ChipTensor *>(word);
    return reinterpret_cast<float *>(tensor->buffer.addr) + tensor->start_offset;
}

extern "C" void kernel_entry(int64_t *args) {
    float *x = data(args[0]), *y = data(args[1]), *window = data(args[2]);
    CommContext *context = reinterpret_cast<CommContext *>(args[4]);
    const uint32_t peer = 1 - context->rankId;
    const uint64_t away = context->windowsIn[peer] - context->windowsIn[context->rankId];
    float *there = reinterpret_cast<float *>(reinterpret_cast<uint64_t>(window) + away);
    for (int i = 0; i < 64; ++i)
        there[i] = x[i];
    comm::Signal theirs(reinterpret_cast<int32_t *>(there + 64));
    comm::TNOTIFY(theirs, 1, comm::NotifyOp::AtomicAdd);
    comm::Signal own(reinterpret_cast<int32_t *>(window + 64));
    comm::TWAIT(own, 1, comm::WaitCmp::GE);
    for (int i = 0; i < 64; ++i)
        y[i] = x[i] + window[i] + static_cast<float>(args[3]);
}
