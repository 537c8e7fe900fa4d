// Sends every message back, each byte one more; a message without bytes as one too, which is called an error. Messages
// are taken two at a time and released in the other order.
#include "aicpu/worker_chip_message_queue.h"
#include "pto_orchestration_api.h"

namespace {

enum : uint64_t { ECHO, RELEASE_TWICE, PUBLISH_WHAT_IS_NOT, SEND_STOP, SAY_NOTHING, LOOK_FOR_TOO_MANY };
using Queue = WorkerChipQueueEndpoint<2>;
using Message = WorkerChipQueueInputHandle;

void report(const Queue &queue) {
    const WorkerChipQueueError &error = queue.error();
    rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "%s kind=%u region=%llu: %s",
                    worker_chip_queue_op_to_string(error.op), static_cast<unsigned>(error.kind),
                    static_cast<unsigned long long>(error.region_id), error.message);
}

bool send_back(Queue &queue, const Message &message, uint64_t mode, uint64_t patience_ns) {
    WorkerChipQueueOutputReservation room{};
    if (!queue.output().reserve(message.payload_nbytes, patience_ns, room))
        return false;
    const uint8_t *from = reinterpret_cast<const uint8_t *>(message.payload.gm_addr);
    uint8_t *to = reinterpret_cast<uint8_t *>(room.payload.gm_addr);
    for (uint64_t i = 0; i < message.payload_nbytes; ++i)
        to[i] = static_cast<uint8_t>(from[i] + 1);
    cache_flush_range(to, message.payload_nbytes);
    room.payload_offset += mode == PUBLISH_WHAT_IS_NOT;
    return queue.output().publish(room, mode == SEND_STOP        ? WorkerChipQueueOpcode::STOP
                                        : message.payload_nbytes ? WorkerChipQueueOpcode::DATA
                                                                 : WorkerChipQueueOpcode::ERROR);
}

// Two messages if they are there at once, the second released first.
bool serve(Queue &queue, uint64_t mode, uint64_t patience_ns) {
    Message messages[3]{};
    if (!queue.input().peek(patience_ns, messages[0]))
        return false;
    int count = 1;
    if (messages[0].opcode != WorkerChipQueueOpcode::STOP && queue.input().try_peek(messages[1]))
        ++count;
    if (mode == LOOK_FOR_TOO_MANY && count == 2 && queue.input().try_peek(messages[2]))
        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "three messages are held");
    for (int i = 0; i < count; ++i)
        if (messages[i].opcode != WorkerChipQueueOpcode::STOP && mode != SAY_NOTHING &&
            !send_back(queue, messages[i], mode, patience_ns))
            return false;
    while (count-- > 0)
        if (!queue.input().release(messages[count]) ||
            (mode == RELEASE_TWICE && !queue.input().release(messages[count])))
            return false;
    return true;
}

} // namespace

extern "C" __attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &args) {
    Queue queue({args.scalar(0), args.scalar(1), args.scalar(2), args.scalar(3), args.scalar(4), args.scalar(5)},
                {args.scalar(6), args.scalar(7), args.scalar(8), args.scalar(9), args.scalar(10), args.scalar(11)});
    while (!queue.input().drained())
        if (!serve(queue, args.scalar(12), args.scalar(13)))
            return report(queue);
}
