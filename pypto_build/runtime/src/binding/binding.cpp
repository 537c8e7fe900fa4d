// The Python module `_embedded`: Runtime(platform).load_kernel/.load_orchestration/.run, RuntimeFault.
//
// Translates Python values, nothing else; every rule lives in the C++ library.
#include "base/types.h"
#include "binding/python_hook.h"
#include "chips/board.h"
#include "crash/containment.h"
#include "data/compare.h"
#include "embedded_runtime.h"
#include "execution/file_identity.h"
#include "execution/shared_object.h"
#include "layouts.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <set>

namespace py = pybind11;

namespace pypto::runtime {

namespace {

PyObject *fault_type = nullptr;

/// Every FaultError that leaves a function of this module becomes pypto_build.runtime.faults.RuntimeFault.
void raise_fault(std::exception_ptr thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const FaultError &error) {
        PyErr_SetObject(fault_type, py::bytes(error.fault.json()).ptr());
    }
}

DataType known_type(const std::string &name) {
    DataType dtype{};
    if (!parse_type(name, dtype))
        throw_fault(FaultKind::UnknownDtype, {{"name", name}});
    return dtype;
}

Direction parse_direction(const std::string &name) {
    if (name == "IN")
        return Direction::In;
    if (name == "OUT")
        return Direction::Out;
    if (name == "INOUT")
        return Direction::InOut;
    throw_fault(FaultKind::UnknownDirection, {{"name", name}});
}

std::vector<Direction> parse_directions(const std::vector<std::string> &names) {
    std::vector<Direction> directions;
    for (const std::string &name : names)
        directions.push_back(parse_direction(name));
    return directions;
}

/// Memory given as an address or as an object with a buffer. Buffers are held until the run is over.
struct Memory {
    uint8_t *address = nullptr;
    uint64_t bytes = 0; // 0 for addresses: the owner vouches for the size
    bool read_only = false;
};

Memory parse_memory(const py::handle &value, std::vector<py::buffer_info> &held, bool writable) {
    if (py::isinstance<py::int_>(value))
        return {reinterpret_cast<uint8_t *>(value.cast<uint64_t>()), 0, false};
    held.push_back(py::reinterpret_borrow<py::buffer>(value).request(writable));
    const py::buffer_info &info = held.back();
    return {static_cast<uint8_t *>(info.ptr), static_cast<uint64_t>(info.size * info.itemsize), info.readonly};
}

TensorParameter parse_tensor(const py::handle &item, size_t index, std::vector<py::buffer_info> &held) {
    const auto fields = item.cast<py::sequence>();
    if (fields.size() != 4 && fields.size() != 5)
        throw_fault(FaultKind::TensorFields, {{"index", index}, {"count", fields.size()}});
    TensorParameter tensor;
    tensor.shape = fields[1].cast<std::vector<uint32_t>>();
    tensor.dtype = known_type(fields[2].cast<std::string>());
    tensor.direction = parse_direction(fields[3].cast<std::string>());
    tensor.name = fields.size() == 5 ? fields[4].cast<std::string>() : format("#%zu", index);
    const Memory memory = parse_memory(fields[0], held, tensor.direction != Direction::In);
    tensor.address = memory.address;
    tensor.read_only = memory.read_only;
    tensor.bytes = element_bytes(tensor.dtype);
    for (const uint32_t size : tensor.shape)
        tensor.bytes *= size;
    if (memory.bytes && memory.bytes < tensor.bytes)
        throw_fault(FaultKind::BufferTooSmall,
                    {{"name", tensor.name}, {"bytes", tensor.bytes}, {"given", memory.bytes}});
    return tensor;
}

uint64_t byte_count(const py::buffer_info &info) {
    return static_cast<uint64_t>(info.size * info.itemsize);
}

py::object compare_buffers(const py::buffer &actual, const py::buffer &expected, const std::string &dtype, double rtol,
                           double atol) {
    DataType type{};
    const py::buffer_info left = actual.request(), right = expected.request();
    if (!parse_type(dtype, type) || byte_count(left) != byte_count(right))
        return py::none();
    const uint64_t count = byte_count(left) / element_bytes(type);
    const auto closeness = compare(type, left.ptr, right.ptr, count, rtol, atol);
    return closeness ? py::object(py::make_tuple(closeness->max_abs, closeness->max_rel)) : py::object(py::none());
}

bool same_bytes(const py::buffer &left, const py::buffer &right) {
    const py::buffer_info one = left.request(), other = right.request();
    return byte_count(one) == byte_count(other) && std::memcmp(one.ptr, other.ptr, byte_count(one)) == 0;
}

template <typename T> void parse_rings(const py::handle &value, const std::string &name, T (&limits)[kRings]) {
    std::vector<uint64_t> values;
    if (py::isinstance<py::int_>(value))
        values.assign(kRings, value.cast<uint64_t>());
    else
        values = value.cast<std::vector<uint64_t>>();
    if (values.size() != kRings)
        throw_fault(FaultKind::RingValues, {{"name", name}, {"count", values.size()}});
    for (uint32_t ring = 0; ring < kRings; ++ring)
        if (values[ring] != 0) // 0 keeps what the environment or the default says
            limits[ring] = static_cast<T>(values[ring]);
}

/// One option of a run: how its value becomes a setting, and what the settings say when it is not given. Names and
/// defaults are those of pypto_build/facts/run_options.py.
struct Option {
    const char *name;
    void (*set)(const Option &self, Settings &settings, const py::handle &value, std::vector<py::buffer_info> &held);
    py::object (*get)(const Settings &settings);
};

template <auto Member> constexpr Option member(const char *name) {
    return {name,
            [](const Option &, Settings &settings, const py::handle &value, std::vector<py::buffer_info> &) {
                using Field = std::remove_reference_t<decltype(settings.*Member)>;
                settings.*Member = value.cast<Field>();
            },
            [](const Settings &settings) { return py::cast(settings.*Member); }};
}

/// A switch that chooses an order; the last one given counts.
template <Order Chosen> constexpr Option switched(const char *name) {
    return {name,
            [](const Option &, Settings &settings, const py::handle &value, std::vector<py::buffer_info> &) {
                if (value.cast<bool>())
                    settings.order = Chosen;
            },
            [](const Settings &settings) { return py::cast(settings.order == Chosen); }};
}

template <auto Limit> constexpr Option rings(const char *name) {
    return {name,
            [](const Option &self, Settings &settings, const py::handle &value, std::vector<py::buffer_info> &) {
                parse_rings(value, self.name, settings.limits.*Limit);
            },
            [](const Settings &settings) -> py::object {
                py::tuple values(kRings);
                for (uint32_t ring = 0; ring < kRings; ++ring)
                    values[ring] = py::int_((settings.limits.*Limit)[ring]);
                return values;
            }};
}

py::object nothing(const Settings &) {
    return py::none();
}

/// Memory that others look into; that of an address has `Vouched` bytes.
template <auto Address, auto Bytes, uint64_t Vouched = 0> constexpr Option shared(const char *name) {
    return {name,
            [](const Option &, Settings &settings, const py::handle &value, std::vector<py::buffer_info> &held) {
                const Memory memory = parse_memory(value, held, true);
                settings.*Address = memory.address;
                settings.*Bytes = memory.bytes ? memory.bytes : Vouched;
            },
            nothing};
}

constexpr Option kOptions[] = {
    member<&Settings::seed>("seed"),
    member<&Settings::strict>("strict"),
    member<&Settings::poison>("poison"),
    member<&Settings::protect_inputs>("protect_inputs"),
    member<&Settings::parameter_order>("parameter_order"),
    member<&Settings::log_level>("log_level"),
    member<&Settings::dump_format>("dump_format"),
    member<&Settings::dump_args>("dump_args"),
    member<&Settings::dep_gen>("dep_gen"),
    member<&Settings::accesses>("accesses"),
    member<&Settings::operands>("operands"),
    member<&Settings::judge>("judge"),
    member<&Settings::instructions>("instructions"),
    member<&Settings::trace>("trace"),
    member<&Settings::only>("only"),
    member<&Settings::hooked>("hooked"),
    member<&Settings::trap>("trap"),
    member<&Settings::memory>("memory"),
    member<&Settings::swimlane>("swimlane"),
    member<&Settings::scope_stats>("scope_stats"),
    member<&Settings::output_dir>("output_dir"),
    member<&Settings::graph>("graph"),
    member<&Settings::dump_select>("dump_select"),
    member<&Settings::dump_tasks>("dump_tasks"),
    switched<Order::Shuffled>("shuffle"),
    switched<Order::Serial>("serial"),
    {"order",
     [](const Option &, Settings &settings, const py::handle &value, std::vector<py::buffer_info> &) {
         settings.task_order = value.cast<std::vector<uint64_t>>();
         settings.order = Order::Listed;
     },
     [](const Settings &settings) { return py::cast(settings.task_order); }},
    {"on_task", // the caller's: it outlives the settings
     [](const Option &, Settings &, const py::handle &, std::vector<py::buffer_info> &) {}, nothing},
    shared<&Settings::report, &Settings::report_bytes, ~uint64_t{0}>("report"),
    shared<&Settings::flight, &Settings::flight_bytes>("flight"),
    shared<&Settings::board, &Settings::board_bytes>("board"),
    member<&Settings::rank>("rank"),
    member<&Settings::windows>("windows"),
    rings<&RingLimits::task_window>("ring_task_window"),
    rings<&RingLimits::heap_bytes>("ring_heap"),
    rings<&RingLimits::dependency_pool>("ring_dep_pool"),
};

/// Returns the defaults of the options.
py::dict default_options() {
    py::dict found;
    for (const Option &option : kOptions)
        found[option.name] = option.get(Settings{});
    return found;
}

Settings parse_options(const py::dict &options, std::vector<py::buffer_info> &held) {
    Settings settings;
    settings.limits = limits_from_environment();
    for (const auto &item : options) {
        const std::string name = item.first.cast<std::string>();
        const auto option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                         [&](const Option &known) { return name == known.name; });
        if (option == std::end(kOptions))
            throw_fault(FaultKind::UnknownOption, {{"name", name}});
        option->set(*option, settings, item.second, held);
    }
    if (std::set<uint64_t>(settings.task_order.begin(), settings.task_order.end()).size() != settings.task_order.size())
        throw_fault(FaultKind::OrderRepeats);
    check_limits(settings.limits);
    if (!settings.memory.empty() && !settings.accesses && settings.order == Order::Parallel)
        settings.order = Order::Serial; // the same run again has the same values
    return settings;
}

RunResult run(EmbeddedRuntime &runtime, const py::sequence &tensors, const std::vector<uint64_t> &scalars,
              const py::dict &options) {
    std::vector<py::buffer_info> held;
    std::vector<TensorParameter> parameters;
    for (size_t i = 0; i < tensors.size(); ++i)
        parameters.push_back(parse_tensor(tensors[i], i, held));
    Settings settings = parse_options(options, held);
    std::optional<PythonHook> hook;
    if (options.contains("on_task") && !options["on_task"].is_none()) {
        settings.hook = &hook.emplace(options["on_task"], runtime.kernels());
        if (settings.order == Order::Parallel)
            settings.order = Order::Serial;
    }
    try {
        const py::gil_scoped_release released;
        return runtime.run(parameters, scalars, settings);
    } catch (const FaultError &) {
        if (hook)
            hook->rethrow();
        throw;
    }
}

} // namespace

} // namespace pypto::runtime

PYBIND11_MODULE(_embedded, module) {
    using namespace pypto::runtime;
    module.doc() = "The embedded runtime of pypto-build: replays compiled artifacts on this machine.";

    fault_type = py::object(py::module_::import("pypto_build.runtime.faults").attr("RuntimeFault")).release().ptr();
    module.attr("RuntimeFault") = py::reinterpret_borrow<py::object>(fault_type);
    py::register_local_exception_translator(raise_fault);
    module.attr("REPORT_BYTES") = sizeof(Report);
    module.attr("BOARD_BYTES") = kBoardBytes;
    module.def("flight_bytes", flight_bytes, py::arg("cores"), "Bytes of the option flight for so many cores.");
    module.attr("OPTIONS") = default_options();

    py::class_<Unwritten>(module, "Unwritten", "Elements of an OUT tensor that no task wrote.")
        .def_readonly("tensor", &Unwritten::tensor, "index among the tensors of the run")
        .def_readonly("count", &Unwritten::count)
        .def_readonly("first", &Unwritten::first, "flat indices of the first ones");
    py::class_<InputWrite>(module, "InputWrite", "The first write to a tensor declared IN.")
        .def_readonly("tensor", &InputWrite::tensor)
        .def_readonly("offset", &InputWrite::offset, "bytes from the tensor's first element")
        .def_property_readonly("task",
                               [](const InputWrite &write) {
                                   return write.task == kNoTask ? py::object(py::none())
                                                                : py::object(py::int_(write.task));
                               })
        .def_readonly("kernel", &InputWrite::kernel)
        .def_readonly("in_copy", &InputWrite::in_copy, "it changed a copy of the tensor, not the tensor itself");
    py::class_<RunResult>(module, "RunResult")
        .def_readonly("tasks", &RunResult::tasks, "kernels run; a task skipped by its predicate counts")
        .def_readonly("run_s", &RunResult::run_s, "seconds from the orchestration's start to the last task's end")
        .def_readonly("unwritten", &RunResult::unwritten)
        .def_readonly("input_writes", &RunResult::input_writes)
        .def_readonly("graph", &RunResult::graph, "with option graph: the content of deps.json, else empty");
    define_hook(module);

    module.def("compare", compare_buffers,
               "compare(actual, expected, dtype, rtol, atol) -> (max_abs, max_rel), or None unless all elements of two "
               "contiguous buffers are finite and close.");
    module.def("same_bytes", same_bytes, "Whether two contiguous buffers hold the same bytes.");

    module.attr("COMMANDS") = kCommands;
    module.attr("RESULTS") = kResults;
    module.def(
        "fork_guarded",
        [](int control, int news, int commands, int results, int output, int errors, bool hide_memory, bool terminal,
           std::string protect, std::vector<std::string> writable, const py::bytes &filter) {
            const Limits limits{hide_memory, std::move(protect), std::move(writable), filter};
            PyOS_BeforeFork();
            const int32_t guard = fork_guarded({control, news, commands, results, output, errors}, limits, terminal);
            const int reason = errno;
            if (guard == 0)
                PyOS_AfterFork_Child();
            else
                PyOS_AfterFork_Parent();
            if (guard < 0) {
                errno = reason;
                PyErr_SetFromErrno(PyExc_OSError);
                throw py::error_already_set();
            }
            return guard;
        },
        py::kw_only(), py::arg("control"), py::arg("news"), py::arg("commands"), py::arg("results"), py::arg("output"),
        py::arg("errors"), py::arg("hide_memory"), py::arg("terminal"), py::arg("protect"), py::arg("writable"),
        py::arg("filter"),
        "Fork a child that cannot leave, given ends of pipes; 0 in the child (which finds COMMANDS and RESULTS), else "
        "the process that watches over it, which tells `news`.");
    module.def(
        "load_ahead",
        [](const std::vector<std::string> &paths) {
            std::vector<bool> loaded;
            for (const std::string &path : paths)
                loaded.push_back(load_ahead(path));
            return loaded;
        },
        py::arg("paths"),
        "Load libraries before it is known that they are those that are needed; of each, whether it is. One is "
        "taken if its file is unchanged when a runtime loads it, and unloaded else.");
    module.def(
        "identify",
        [](const std::vector<std::string> &paths) {
            std::vector<FileIdentity> found;
            for (const std::string &path : paths)
                found.push_back(FileIdentity::of(path));
            return py::bytes(reinterpret_cast<const char *>(found.data()), found.size() * sizeof(FileIdentity));
        },
        py::arg("paths"),
        "What the system says of files, five numbers of eight bytes each: device, inode, size (-1 where there is no "
        "regular file), times of the last change and of that of its status.");
    module.def("flush_output", flush_output, "Let out what C and C++ code has printed.");
    module.def("remove_segments", remove_segments, py::arg("creator"), py::arg("since"),
               "Remove the System V shared memory that a process made, or that others made since a time (in seconds) "
               "and left; the number of segments.");

    py::class_<EmbeddedRuntime>(module, "Runtime")
        .def(py::init<const std::string &, int>(), py::arg("platform"), py::arg("threads") = 0)
        .def(
            "load_kernel",
            [](EmbeddedRuntime &runtime, int func_id, const std::string &name, const std::string &core_type,
               const std::string &path, const std::optional<std::vector<std::string>> &signature) {
                runtime.kernels().load(func_id, name, core_type, path);
                if (signature)
                    runtime.kernels().set_signature(func_id, parse_directions(*signature));
            },
            py::arg("func_id"), py::arg("name"), py::arg("core_type"), py::arg("path"),
            py::arg("signature") = py::none(), "`signature`: IN, OUT or INOUT for each tensor; labels dumps.")
        .def(
            "replace_kernel",
            [](EmbeddedRuntime &runtime, int func_id, const std::string &path) {
                runtime.kernels().replace(func_id, path);
            },
            py::arg("func_id"), py::arg("path"), "Another build of a kernel, from within the callback of a run.")
        .def(
            "load_kernel_ahead",
            [](EmbeddedRuntime &runtime, int func_id, const std::string &name, const std::string &core_type,
               const std::string &path, const std::optional<std::vector<std::string>> &signature) {
                const bool loaded = runtime.kernels().load_ahead(func_id, name, core_type, path);
                if (loaded && signature)
                    runtime.kernels().set_signature(func_id, parse_directions(*signature));
                return loaded;
            },
            py::arg("func_id"), py::arg("name"), py::arg("core_type"), py::arg("path"),
            py::arg("signature") = py::none(),
            "The same for a library that `load_ahead` has loaded; false if it has not. Before a run `renew_kernels` "
            "has to be asked.")
        .def(
            "renew_kernels", [](EmbeddedRuntime &runtime) { return runtime.kernels().renew(); },
            "Looks at the libraries that were loaded ahead. The func_ids of kernels that have to be loaded by "
            "`replace_kernel` before a run: those whose libraries are others by now, or were not loaded ahead.")
        .def("load_orchestration", &EmbeddedRuntime::load_orchestration, py::arg("path"), py::arg("function_name") = "",
             py::arg("config_name") = "")
        .def("run", &run, py::arg("tensors"), py::arg("scalars") = std::vector<uint64_t>{},
             py::arg("options") = py::dict(),
             "Runs the orchestration on (memory, shape, dtype, direction[, name]) tensors and 64-bit scalars.");
}
