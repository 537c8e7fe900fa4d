// Stand-in for simpler's header: the names that an orchestration of the tests uses; nothing is executed.
#pragma once
#include "tensor.h"

enum class DataType { FLOAT32 };

struct TensorRef {
    const ChipTensor &ref() const;
};

struct ChipTaskArgs {
    TensorRef tensor(int index) const;
};

struct CoreTaskArgs {
    void add_input(const ChipTensor &);
    void add_output(const ChipTensor &);
};

struct TensorCreateInfo {
    TensorCreateInfo(const uint32_t *shapes, int rank, DataType type);
};

struct TaskOutputTensors {
    const ChipTensor &get_ref(int index) const;
};

struct PTO2OrchestrationConfig {
    int expected_arg_count;
};

TaskOutputTensors alloc_tensors(const TensorCreateInfo &);
void rt_submit_aiv_task(int func_id, const CoreTaskArgs &);

#define PTO2_SCOPE() if (true)
