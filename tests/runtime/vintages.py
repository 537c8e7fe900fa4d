"""The same program as the orchestrations of each generation of the API would write it.

f = (a + b) + alpha * steps, through one intermediate tensor; kernel 0 adds, kernel 1 shifts. In the generations before
2026-03-17 a kernel's arguments keep the order they were given in, so the shift kernel of those takes its scalars first.
"""

from __future__ import annotations

from tests.runtime.rig import ORCHESTRATION_HEAD, entry

_CONFIG = """
__attribute__((visibility("default")))
PTO2OrchestrationConfig aicpu_orchestration_config({args}) {{
    return PTO2OrchestrationConfig{{ .expected_arg_count = 5, }};
}}
"""


def _modern(entry_args: str, tensor: str, external: str, task_args: str, submit: str, extra: str = "") -> str:
    body = f"""
    {tensor} ext_a = {external.format(0)};
    {tensor} ext_b = {external.format(1)};
    {tensor} ext_f = {external.format(2)};
    float alpha = from_u64<float>(orch_args.scalar(0));
    int32_t steps = from_u64<int32_t>(orch_args.scalar(1));
    PTO2_SCOPE() {{
        uint32_t t_ci_shapes[2] = {{4, 8}};
        TensorCreateInfo t_ci(t_ci_shapes, 2, DataType::FLOAT32);
        TaskOutputTensors alloc_0 = alloc_tensors(t_ci);
        {tensor.replace("&", "")}& t = alloc_0.get_ref(0);
        {task_args} params_t0;
        params_t0.add_input(ext_a);
        params_t0.add_input(ext_b);
        params_t0.add_output(t);
        {submit}aiv_task(0, params_t0);
        {task_args} params_t1;
        params_t1.add_input(t);
        params_t1.add_output(ext_f);
        params_t1.add_scalar(to_u64(alpha));
        params_t1.add_scalar(steps);
        {submit}aiv_task(1, params_t1);
    }}
"""
    config = _CONFIG.format(args=f"const {entry_args}& orch_args").replace("return", "(void)orch_args; return")
    text = entry(body, f"const {entry_args}& orch_args{extra}")
    return text.replace('extern "C" {\n', 'extern "C" {\n' + config, 1)


def _april_runtime_outputs() -> str:
    """2026-03-28 to 04-09: intermediates are outputs of tasks, existing outputs are inout, threads are passed."""
    return entry(
        """
    (void)orch_thread_num; (void)orch_thread_index;
    Tensor ext_a = from_tensor_arg(orch_args.tensor(0));
    Tensor ext_b = from_tensor_arg(orch_args.tensor(1));
    Tensor ext_f = from_tensor_arg(orch_args.tensor(2));
    PTO2_SCOPE() {
        uint32_t shapes[2] = {4, 8};
        TensorCreateInfo t_ci(shapes, 2, DataType::FLOAT32);
        Arg params_t0;
        params_t0.add_input(ext_a);
        params_t0.add_input(ext_b);
        params_t0.add_output(t_ci);
        TaskOutputTensors outs_t0 = pto2_rt_submit_aiv_task(0, params_t0);
        const Tensor& t = outs_t0.get_ref(0);
        Arg params_t1;
        params_t1.add_input(t);
        params_t1.add_inout(ext_f);
        params_t1.add_scalar(orch_args.scalar(0));
        params_t1.add_scalar(orch_args.scalar(1));
        pto2_rt_submit_aiv_task(1, params_t1);
    }
    LOG_INFO("done %d", 2);
""",
        "const ChipStorageTaskArgs& orch_args, int orch_thread_num, int orch_thread_index",
    )


def _march_array(entry_arg: str, convert: str) -> str:
    """2026-03-24 to 03-28: one array of tensors and scalars, PTOParam objects without the handle."""
    return entry(
        f"""
    (void)arg_count;
    Tensor ext_a = {convert.format(0)};
    Tensor ext_b = {convert.format(1)};
    Tensor ext_f = {convert.format(2)};
    uint32_t shapes[2] = {{4, 8}};
    PTO2_SCOPE() {{
        Tensor t = make_tensor(shapes, 2, DataType::FLOAT32);
        PTOParam p0;
        p0.add_input(ext_a);
        p0.add_input(ext_b);
        p0.add_output(t);
        pto2_rt_submit_aiv_task(0, p0);
        PTOParam p1;
        p1.add_input(t);
        p1.add_output(ext_f);
        p1.add_scalar(orch_args[3].scalar);
        p1.add_scalar(orch_args[4].scalar);
        pto2_rt_submit_aiv_task(1, p1);
    }}
""",
        f"{entry_arg}* orch_args, int arg_count, int orch_thread_num, int orch_thread_index",
    ).replace("(void)arg_count;", "(void)arg_count; (void)orch_thread_num; (void)orch_thread_index;")


def _words(params: str, scope: str, tasks: str) -> str:
    body = f"""
    (void)arg_count;
    uint32_t shapes[2] = {{4, 8}};
    Tensor ext_a = make_tensor_external(reinterpret_cast<void*>(args[0]), shapes, 2, DataType::FLOAT32);
    Tensor ext_b = make_tensor_external(reinterpret_cast<void*>(args[1]), shapes, 2, DataType::FLOAT32);
    Tensor ext_f = make_tensor_external(reinterpret_cast<void*>(args[2]), shapes, 2, DataType::FLOAT32);
    {scope} {{
        Tensor t = make_tensor(shapes, 2, DataType::FLOAT32);
        {tasks}
    }}
"""
    config = _CONFIG.format(args="uint64_t* args, int arg_count").replace(
        "return", "(void)args; (void)arg_count; return"
    )
    text = f"{ORCHESTRATION_HEAD}\n" + 'extern "C" {\n' + config
    text += f'__attribute__((visibility("default"))) void aicpu_orchestration_entry({params}) {{\n{body}\n}}\n}}\n'
    return text


_OBJECTS = """
        PTOParam p0;
        p0.add_input(ext_a);
        p0.add_input(ext_b);
        p0.add_output(t);
        pto2_rt_submit_aiv_task({rt}0, p0);
        PTOParam p1;
        p1.add_input(t);
        p1.add_output(ext_f);
        p1.add_scalar(args[3]);
        p1.add_scalar(args[4]);
        pto2_rt_submit_aiv_task({rt}1, p1);
"""

_ARRAYS = """
        PTOParam p0[] = {{ make_input_param(ext_a), make_input_param(ext_b), make_output_param(t), }};
        {submit0}p0, 3);
        PTOParam p1[] = {{
            make_scalar_param(args[3]), make_scalar_param(args[4]), make_input_param(t), make_output_param(ext_f),
        }};
        {submit1}p1, 4);
"""

_HANDLE = "PTO2Runtime* rt, uint64_t* args, int arg_count"
_THREADS = ", int /*orch_thread_num*/, int /*orch_thread_index*/"

TENSORS_FIRST = {
    "2026-08": _modern("ChipTaskArgs", "const ChipTensor&", "orch_args.tensor({}).ref()", "CoreTaskArgs", "rt_submit_"),
    "2026-06": _modern("L2TaskArgs", "const Tensor&", "orch_args.tensor({}).ref()", "L0TaskArgs", "rt_submit_"),
    "2026-05": _modern("ChipStorageTaskArgs", "Tensor", "from_tensor_arg(orch_args.tensor({}))", "Arg", "rt_submit_"),
    "2026-04": _modern(
        "ChipStorageTaskArgs", "Tensor", "from_tensor_arg(orch_args.tensor({}))", "Arg", "pto2_rt_submit_"
    ),
    "2026-03-28": _april_runtime_outputs(),
    "2026-03-26": _march_array("TaskArg", "from_task_arg(orch_args[{}])"),
    "2026-03-24": _march_array("OrchArg", "orch_args[{}].to_tensor()"),
    "2026-03-22": _words(f"uint64_t* args, int arg_count{_THREADS}", "PTO2_SCOPE()", _OBJECTS.format(rt="")),
    "2026-03-17": _words(f"{_HANDLE}{_THREADS}", "PTO2_SCOPE(rt)", _OBJECTS.format(rt="rt, ")),
}
IN_ORDER = {
    "2026-03-11": _words(
        f"{_HANDLE}{_THREADS}",
        "PTO2_SCOPE(rt)",
        _ARRAYS.format(submit0="pto2_rt_submit_aiv_task(rt, 0, ", submit1="pto2_rt_submit_aiv_task(rt, 1, "),
    ),
    "2026-02-24": _words(
        _HANDLE,
        "PTO2_SCOPE(rt)",
        _ARRAYS.format(
            submit0="pto2_rt_submit_task(rt, 0, PTO2_WORKER_VECTOR, ",
            submit1="pto2_rt_submit_task(rt, 1, PTO2_WORKER_VECTOR, ",
        ),
    ),
    "2026-02-12": _words(
        _HANDLE,
        "PTO2_SCOPE(rt)",
        _ARRAYS.format(
            submit0='pto2_rt_submit_task(rt, 0, PTO2_WORKER_VECTOR, "add", ',
            submit1='pto2_rt_submit_task(rt, 1, PTO2_WORKER_VECTOR, "shift", ',
        ),
    ),
}
