// A task as a Python callable sees it.
#include "binding/python_hook.h"

#include "base/clock.h"
#include "base/types.h"
#include "chips/board.h"
#include "execution/core.h"

#include <pybind11/stl.h>

#include <algorithm>

namespace py = pybind11;

namespace pypto::runtime {

namespace {

constexpr const char *kRoles[] = {"aic", "aiv0", "aiv1"};
constexpr const char *kDirections[] = {"IN", "OUT", "INOUT", "OUT", "NO_DEP"};

py::tuple sizes(const uint32_t *values, uint32_t count) {
    py::tuple result(count);
    for (uint32_t i = 0; i < count; ++i)
        result[i] = values[i];
    return result;
}

std::variant<TensorArgument, ScalarArgument> argument(const Task &task, const TaskArgument &argument) {
    if (argument.kind == ArgEntry::SCALAR)
        return ScalarArgument{task.scalars[argument.index], argument.dtype};
    return TensorArgument{task.tensors[argument.index], kDirections[static_cast<int>(argument.tag)],
                          argument.tag == TensorArgType::OUTPUT};
}

py::memoryview memory(const TensorArgument &argument) {
    const TensorBuffer &buffer = argument.tensor.buffer;
    return py::memoryview::from_memory(reinterpret_cast<void *>(buffer.addr), static_cast<py::ssize_t>(buffer.size));
}

// All arguments at once: a tuple for a tensor, the bits of a scalar.
py::list slots(const TaskCall &call) {
    py::list result;
    for (const auto &given : call.args) {
        if (const auto *scalar = std::get_if<ScalarArgument>(&given)) {
            result.append(scalar->bits);
            continue;
        }
        const ChipTensor &tensor = std::get<TensorArgument>(given).tensor;
        result.append(py::make_tuple(tensor.buffer.addr, tensor.buffer.size, tensor.start_offset,
                                     torch_name(tensor.dtype), sizes(tensor.shapes, tensor.ndims),
                                     sizes(tensor.strides, tensor.ndims)));
    }
    return result;
}

void run_kernels(const TaskCall &call) {
    if (call.run == nullptr)
        throw py::value_error("the task is over: run() belongs inside the callback");
    Fault fault;
    {
        const py::gil_scoped_release released;
        fault = (*call.run)();
    }
    if (fault)
        throw FaultError{fault};
}

// Returns the activation that notifies or waits in the kernels' place. Throws without other ranks or after the call.
Activation activation_of(const TaskCall &call) {
    if (call.run == nullptr)
        throw py::value_error("the task is over: signals belong inside the callback");
    if (!*call.signals || call.kernel == nullptr)
        throw py::value_error("there are no other ranks in this run");
    Activation activation{};
    activation.kernel = call.kernel;
    activation.task = call.task;
    activation.context.block_idx = std::max(call.block, 0);
    return activation;
}

void notify(const TaskCall &call, uint64_t address, int32_t value, bool set) {
    call.signals->notify(activation_of(call), reinterpret_cast<int32_t *>(address), value, set, monotonic_ns());
}

void await_signal(const TaskCall &call, uint64_t address, int32_t expected, uint32_t comparison) {
    const Activation activation = activation_of(call);
    const py::gil_scoped_release released;
    call.signals->wait(activation, reinterpret_cast<const int32_t *>(address), expected, comparison,
                       [] { return false; }); // the driver of the ranks ends a wait that never ends
}

} // namespace

bool PythonHook::execute(const Task &task, int32_t block, const Kernels &kernels, RankSignals &signals) {
    const py::gil_scoped_acquire held;
    const py::object call = describe(task, block, kernels, signals);
    try {
        callable_(call);
    } catch (...) {
        raised_ = std::current_exception();
    }
    call.cast<TaskCall &>().run = nullptr;
    return raised_ == nullptr;
}

py::object PythonHook::describe(const Task &task, int32_t block, const Kernels &kernels, RankSignals &signals) const {
    TaskCall call{task.number, task.id, block, task.block_num, py::list(), {}, &kernels, &task, nullptr, &signals};
    for (int i = 0; i < 3; ++i)
        if (const Kernel *kernel = kernels_.find(task.kernels[i])) {
            call.kernels.append(py::make_tuple(kRoles[i], kernel->func_id, kernel->name));
            call.kernel = call.kernel ? call.kernel : kernel;
        }
    for (const bool scalars : {false, true}) // args[] of the kernels: in the order given, or tensors first
        for (const TaskArgument &given : task.arguments)
            if (task.interleaved ? !scalars : (given.kind == ArgEntry::SCALAR) == scalars)
                call.args.push_back(argument(task, given));
    return py::cast(std::move(call));
}

void define_hook(py::module_ &module) {
    py::class_<TensorArgument>(module, "TensorArgument", "A tensor of a task: a strided view into a buffer.")
        .def_property_readonly(
            "address",
            [](const TensorArgument &self) { return reinterpret_cast<uint64_t>(self.tensor.data_as<uint8_t>()); })
        .def_property_readonly("buffer_address", [](const TensorArgument &self) { return self.tensor.buffer.addr; })
        .def_property_readonly("buffer_bytes", [](const TensorArgument &self) { return self.tensor.buffer.size; })
        .def_property_readonly(
            "start_offset", [](const TensorArgument &self) { return self.tensor.start_offset; },
            "elements from the buffer's start to the first element")
        .def_property_readonly("shape",
                               [](const TensorArgument &self) { return sizes(self.tensor.shapes, self.tensor.ndims); })
        .def_property_readonly(
            "strides", [](const TensorArgument &self) { return sizes(self.tensor.strides, self.tensor.ndims); },
            "in elements")
        .def_property_readonly("dtype", [](const TensorArgument &self) { return torch_name(self.tensor.dtype); })
        .def_property_readonly(
            "direction", [](const TensorArgument &self) { return self.direction; },
            "IN, OUT, INOUT or NO_DEP, as the task declares it")
        .def_readonly("allocated", &TensorArgument::allocated, "whether the runtime allocated it for this task")
        .def("memory", memory, "The whole buffer, writable, as a memoryview of bytes.");
    py::class_<ScalarArgument>(module, "ScalarArgument", "A scalar of a task.")
        .def_readonly("bits", &ScalarArgument::bits, "the 64-bit word the kernel gets")
        .def_property_readonly("dtype", [](const ScalarArgument &self) { return torch_name(self.dtype); });
    py::class_<TaskCall>(module, "TaskCall", "The kernels of a task on one block; see option on_task of Runtime.run.")
        .def_readonly("number", &TaskCall::number, "of the task, in submission order")
        .def_readonly("task_id", &TaskCall::task_id, "ring << 32 | number in the ring")
        .def_property_readonly(
            "block",
            [](const TaskCall &self) { return self.block < 0 ? py::object(py::none()) : py::cast(self.block); },
            "of the SPMD launch; None stands for all blocks, where they start together")
        .def_readonly("block_num", &TaskCall::block_num)
        .def_readonly("kernels", &TaskCall::kernels, "(\"aic\", \"aiv0\" or \"aiv1\", func_id, name) of each member")
        .def_property_readonly(
            "args", [](const TaskCall &self) { return self.args; },
            "TensorArgument and ScalarArgument in the order of the kernel's args[]")
        .def("slots", slots,
             "args as plain values: (buffer_address, buffer_bytes, start_offset, dtype, shape, strides), or bits")
        .def("notify", notify, py::arg("address"), py::arg("value"), py::arg("set"),
             "Adds to the signal at an address, or sets it, and wakes the ranks that wait for it.")
        .def("wait", await_signal, py::arg("address"), py::arg("expected"), py::arg("comparison"),
             "Sleeps until a signal is == != > >= < <= (0 to 5) what is expected.")
        .def("run", run_kernels, "Runs the kernels; raises RuntimeFault when that fails.");
}

} // namespace pypto::runtime
