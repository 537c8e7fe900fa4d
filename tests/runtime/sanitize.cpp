// Runs one artifact in an instrumented process: the runtime without Python, as tests/runtime/sanitize.py describes it
// on standard input, a line each: kernel, orchestration, tensor, scalar, order, run.
#include "base/types.h"
#include "embedded_runtime.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace pypto::runtime;

namespace {

struct TestTensor {
    TensorParameter parameter;
    std::string file;
    std::vector<char> initial;
    std::vector<char> memory;
};

Direction direction_of(const std::string &name) {
    return name == "IN" ? Direction::In : name == "OUT" ? Direction::Out : Direction::InOut;
}

TestTensor read_tensor(std::istringstream &words) {
    TestTensor tensor;
    std::string dtype, direction;
    words >> tensor.parameter.name >> tensor.file >> dtype >> direction;
    parse_type(dtype, tensor.parameter.dtype);
    tensor.parameter.direction = direction_of(direction);
    tensor.parameter.bytes = pypto::element_bytes(tensor.parameter.dtype);
    for (uint32_t size; words >> size; tensor.parameter.bytes *= size)
        tensor.parameter.shape.push_back(size);
    tensor.initial.resize(tensor.parameter.bytes);
    std::ifstream(tensor.file, std::ios::binary).read(tensor.initial.data(), static_cast<long>(tensor.initial.size()));
    return tensor;
}

void run(EmbeddedRuntime &runtime, std::vector<TestTensor> &tensors, const std::vector<uint64_t> &scalars,
         const Settings &settings) {
    std::vector<TensorParameter> parameters;
    for (TestTensor &tensor : tensors) {
        tensor.memory = tensor.initial;
        tensor.parameter.address = reinterpret_cast<uint8_t *>(tensor.memory.data());
        parameters.push_back(tensor.parameter);
    }
    const RunResult result = runtime.run(parameters, scalars, settings);
    std::printf("%llu tasks\n", static_cast<unsigned long long>(result.tasks));
    for (TestTensor &tensor : tensors)
        if (tensor.parameter.direction != Direction::In)
            std::ofstream(tensor.file, std::ios::binary)
                .write(tensor.memory.data(), static_cast<long>(tensor.memory.size()));
}

} // namespace

int main() try {
    EmbeddedRuntime runtime("a2a3sim", 4);
    std::vector<TestTensor> tensors;
    std::vector<uint64_t> scalars;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string what, name, core_type, path;
        words >> what;
        if (what == "kernel") {
            int func_id = 0;
            words >> func_id >> name >> core_type >> path;
            runtime.kernels().load(func_id, name, core_type, path);
        } else if (what == "orchestration") {
            words >> path >> name >> core_type;
            runtime.load_orchestration(path, name, core_type);
        } else if (what == "tensor") {
            tensors.push_back(read_tensor(words));
        } else if (what == "scalar") {
            uint64_t bits = 0;
            words >> bits;
            scalars.push_back(bits);
        } else if (what == "run") {
            Settings settings;
            words >> name >> settings.output_dir;
            settings.order = name == "shuffle" ? Order::Shuffled : Order::Parallel;
            settings.dep_gen = settings.scope_stats = name == "records";
            settings.swimlane = name == "records" ? 4 : 0;
            settings.dump_args = name == "records" ? 2 : 0;
            run(runtime, tensors, scalars, settings);
        }
    }
    return 0;
} catch (const FaultError &error) {
    std::fprintf(stderr, "fault: %s\n", error.fault.json().c_str());
    return 1;
}
