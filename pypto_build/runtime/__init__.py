"""The embedded runtime: headers that generated C++ includes, the scheduler, and the module it is used through.

The module ``_embedded`` is compiled on first use (``pypto_build.runtime.build``) and loaded from its path
(``pypto_build.replay.loading.load_embedded``)::

    runtime = _embedded.Runtime("a2a3sim", threads=0)           # 0: those of this machine
    runtime.load_kernel(0, "add", "aiv", "add.so", ["IN", "OUT"])
    runtime.load_orchestration("main.so", "aicpu_orchestration_entry", "aicpu_orchestration_config")
    result = runtime.run([(memory, (4, 8), "float32", "OUT", "y")], scalars, options)

``result`` has ``tasks``, ``run_s``, ``unwritten``, ``input_writes`` and ``graph``; what goes wrong is raised as
``_embedded.RuntimeFault`` (``kind``, ``message``, ``hint``, ``code``, ``code_name``, ``task``, ``task_id``,
``kernel``).

Options that choose the order of tasks (without any, ready tasks run on all threads):

``serial``, ``shuffle`` with ``seed``
    One by one in submission order, or in a seeded random legal order.
``order``
    A list of task ids as in deps.json (``ring << 32 | number``): the tasks run one by one exactly as listed, those left
    out come last. A list that no legal run follows is a fault of kind "usage_error" that says where it breaks.
``strict``
    Also orders readers before writers and overlapping outputs.

Options that look at tasks or stand in for them:

``on_task``
    A callable that stands in place of every task's kernels; tasks then run one by one. It is called once for each block
    of a task (once for all blocks where they start together) with an object that is good for that call::

        call.number, call.task_id              # counted in submission order; ring << 32 | number in the ring
        call.block, call.block_num             # block is None for all blocks together
        call.kernels                           # [("aic", 3, "matmul"), ("aiv0", 4, "relu"), ...]: role, func_id, name
        call.args                              # in the order of the kernel's args[]
        call.slots()                           # the same as plain values: a tuple for a tensor, bits for a scalar
        call.run()                             # runs the kernels; raises RuntimeFault when that fails

    A tensor among ``args`` has ``address`` (of its first element), ``buffer_address``, ``buffer_bytes``,
    ``start_offset`` and ``strides`` (elements), ``shape``, ``dtype``, ``direction`` (what the task declares: IN, OUT,
    INOUT or NO_DEP), ``allocated`` (by the runtime for this task) and ``memory()``, the whole buffer as a writable
    memoryview; a scalar has ``bits`` and ``dtype``. ``slots()`` has (buffer_address, buffer_bytes, start_offset, dtype,
    shape, strides) for a tensor. Tasks without kernels and those a predicate skips make no call. An
    exception ends the run and leaves ``run`` as it was raised.
``hooked``, ``only``
    Calls, as task and block one after the other, where block -1 stands for all of a task's: those that ``on_task``
    stands in for, where others run as they are, and those that are made at all, where others count as over at once.
``trace``, ``judge``
    Of checked kernels: calls that leave every instruction with its values (``trace.TASK.BLOCK.MEMBER.json`` and
    ``.bin``), and whether they say what is wrong; without, they record what they load and store and nothing of tiles.
``instructions``
    Checked kernels leave every instruction with operands, flags and barriers, and no values, in instructions.json and
    instructions.bin; they check nothing.
``graph``
    ``result.graph`` is the text that ``dep_gen`` writes to deps.json: tasks, tensors, and every edge with its reason.

A run that dumps runs its tasks one by one, so that no dump holds what another task is just writing. ``dump_select``
limits a dump to arguments, as KERNEL or KERNEL:INDEX (``*`` and ``?`` match; INDEX as ``arg_index`` in the dump).
``dump_tasks`` limits it to tasks, as N, N-M (numbers in submission order) or 0xID. Records go to ``output_dir``.

All options, with their defaults, are ``SETTINGS`` of ``pypto_build.facts.run_options``.
"""
