"""Files that readers once failed on: with a traceback, without an end, or with all of the memory."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.diagnose.ranks_runs import encoded, ranks_document
from tests.readers.table import READERS

_EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"
_ENTRY = (
    '__attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &orch_args) {\n%s\n}\n'
)
_DEEP = b"[" * 100_000
_UNKNOWN = b'{"unknown": ' + _DEEP
_KERNEL = '"core_type": "aiv", "source": "kernels/aiv/kernel_add.cpp"'
_REST = '\nORCHESTRATION = {"source": "orchestration/vector_dag.cpp"}\n'


def _manifest(entry: str, before: str = "", after: str = "") -> bytes:
    return f"{before}\nKERNELS = [{{{entry}}}]{_REST}{after}\n".encode()


def _shared(levels: int) -> str:
    """Lists of two that hold the same list twice: as text 2 ** levels long, as objects `levels` many."""
    return "L0 = [0, 0]\n" + "".join(f"L{n} = [L{n - 1}, L{n - 1}]\n" for n in range(1, levels))


def _saved(pickled: bytes, storage: bytes = bytes(16)) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("x/data.pkl", pickled)
        archive.writestr("x/data/0", storage)
    return made.getvalue()


def _tensor(shape: list[int], strides: list[int], size: bytes = b"K\x04") -> bytes:
    def number(value: int) -> bytes:
        return b"\x8a\x10" + value.to_bytes(16, "little", signed=True)

    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0" + b"0X\x03\0\0\0cpu" + size + b"tQ"
    sizes = b"(" + b"".join(map(number, shape)) + b"t(" + b"".join(map(number, strides)) + b"t"
    made = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + sizes + b"\x89"
    return made + b"ccollections\nOrderedDict\n)RtR."


def _doubled(levels: int) -> bytes:
    """A tuple that holds one tuple twice, `levels` deep: its hash and its text take 2 ** levels steps."""
    return b"K\0\x85q\0" + b"".join(b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(levels))


def _edited(pattern: str, old: str, new: str) -> bytes:
    text = next(iter(sorted(_EXAMPLES.glob(pattern)))).read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new, 1).encode("utf-8", "surrogateescape")


def _entry(body: str, before: str = "") -> bytes:
    return f"{before}\n{_ENTRY % body}".encode()


def _interface(*keys: str | int, value: object) -> Callable[[], bytes]:
    """A good interface.json with one value changed."""

    def made() -> bytes:
        from tests.readers.table import reader

        document = holder = json.loads(reader("interface").seeds()[0])
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = value
        return json.dumps(document).encode()

    return made


def _log(line: str) -> bytes:
    return f"[ERROR] {line}\n".encode()


def _elf(offset: int, form: str, value: int) -> bytes:
    """A library with one section, a table of symbols, and one number changed."""
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01", 1, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0)
    made = bytearray(header + struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 64, 24, 0, 0, 8, 24) + bytes(16))
    struct.pack_into(form, made, offset, value)
    return bytes(made)


_STALL = "[STALL thread=0 idle_iterations=1] TASK ring=1 task_id={} state=WAIT fanin_refcount=1/2 kernels=[aic:-1 aiv0:1 aiv1:-1]"
_NUMBER = "9" * 5000


#: Reader, what was found, the file, and the error; none where damage is no error, as of what can be done without.
def _accesses(old: bytes, new: bytes) -> bytes:
    """A good record of accesses with something else in one place."""
    (seed,) = next(row for row in READERS if row.name == "accesses").seeds()
    assert seed.count(old) == 1
    return seed.replace(old, new)


FOUND: tuple[tuple[str, str, bytes | Callable[[], bytes], str], ...] = (
    (
        "manifest",
        "a list of lists",
        _manifest("", "A = [" + "0," * 60_000 + "]\nB = [" + "*A," * 40_000 + "]"),
        "DIR/kernel_config.py:2: 'List of many parts' is too long to be evaluated; a manifest may hold imports, assignments, literals, arithmetic on integers, f-strings, paths made from Path(__file__) with / .parent .resolve() str() os.path.join(), and ArgDirection members",
    ),
    (
        "manifest",
        "a text of texts",
        _manifest("", f'A = "{"x" * 60_000}"\nB = f"{"{A}" * 9_000}"'),
        "DIR/kernel_config.py:2: 'JoinedStr of many parts' is too long to be evaluated; a manifest may hold imports, assignments, literals, arithmetic on integers, f-strings, paths made from Path(__file__) with / .parent .resolve() str() os.path.join(), and ArgDirection members",
    ),
    (
        "manifest",
        "many braces",
        _manifest("", f'B = f"{"{A}" * 300_000}"'),
        "DIR/kernel_config.py: has more than 30,000 braces, so it is not a manifest; compile again",
    ),
    (
        "manifest",
        "much work",
        _manifest("", "A = [" + "0," * 60_000 + "]\n" + "B = [*A]\n" * 2000),
        "DIR/kernel_config.py:560: '[*A]' is too long to be evaluated; a manifest may hold imports, assignments, literals, arithmetic on integers, f-strings, paths made from Path(__file__) with / .parent .resolve() str() os.path.join(), and ArgDirection members",
    ),
    (
        "manifest",
        "endless value",
        _manifest(f'"func_id": L59, {_KERNEL}', _shared(60)),
        "DIR/kernel_config.py:62: KERNELS[0].func_id: [[[...], [...]], [[...], [...]]] is not a number of 0 or more; compile again or correct the manifest",
    ),
    (
        "manifest",
        "endless index",
        _manifest("", _shared(60).replace("[", "(").replace("]", ")") + "A = {}\nB = A[L59]"),
        "DIR/kernel_config.py:62: 'A[L59]' is not supported in a manifest; a manifest may hold imports, assignments, literals, arithmetic on integers, f-strings, paths made from Path(__file__) with / .parent .resolve() str() os.path.join(), and ArgDirection members",
    ),
    (
        "manifest",
        "thousands of digits",
        _manifest(f'"func_id": 0x{"f" * 5000}, {_KERNEL}'),
        "DIR/kernel_config.py:2: a number of 20000 bits is too large to be evaluated; a manifest may hold imports, assignments, literals, arithmetic on integers, f-strings, paths made from Path(__file__) with / .parent .resolve() str() os.path.join(), and ArgDirection members",
    ),
    (
        "manifest",
        "func_id beyond any",
        _manifest(f'"func_id": {10**12}, {_KERNEL}'),
        "DIR/kernel_config.py:2: KERNELS[0].func_id: 1000000000000 is not a number of 0 or more; compile again or correct the manifest",
    ),
    (
        "manifest",
        "no text",
        _manifest('"func_id": 0, "core_type": "aiv", "source": "\\ud800.cpp"'),
        "DIR/kernel_config.py:2: KERNELS[0].source: '\\ud800.cpp' is not a path; give the path of a file in the artifact",
    ),
    (
        "manifest",
        "endless path",
        _manifest(f'"func_id": 0, "core_type": "aiv", "source": "/{"a/" * 30_000}"'),
        "DIR/kernel_config.py:2: KERNELS[0].source: '/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a'... is not a path; give the path of a file in the artifact",
    ),
    (
        "manifest",
        "blocks beyond any",
        _manifest(f'"func_id": 0, {_KERNEL}', after=f'RUNTIME_CONFIG = {{"block_dim": {2**70}}}'),
        "DIR/kernel_config.py:4: a number of 71 bits is too large to be evaluated; a manifest may hold imports, assignments, literals, arithmetic on integers, f-strings, paths made from Path(__file__) with / .parent .resolve() str() os.path.join(), and ArgDirection members",
    ),
    (
        "manifest",
        "config beyond any",
        _manifest(f'"func_id": 0, {_KERNEL}', after=f'RUNTIME_CONFIG = {{"x": {2**64 - 1}}}'),
        "DIR/kernel_config.py:4: RUNTIME_CONFIG.x: 18446744073709551615 is too large a number; compile again or correct the manifest",
    ),
    (
        "manifest",
        "chain",
        _manifest("", f"A = x{'.a' * 100_000}"),
        "DIR/kernel_config.py: is not Python source: maximum recursion depth exceeded during ast construction; compile again to get a new manifest",
    ),
    (
        "pt",
        "repeated bytes",
        _saved(_tensor([10**6, 10**6], [0, 0])),
        "DIR/x.pt: holds a view of shape [1000000, 1000000] that repeats its 16 bytes; save it again: torch.save(tensor.detach().cpu().contiguous(), path)",
    ),
    (
        "pt",
        "windows on windows",
        _saved(_tensor([2] * 30, [0, 1] * 15, b"M\x10\0"), bytes(64)),
        "DIR/x.pt: holds a view of shape [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2] that repeats its 64 bytes; save it again: torch.save(tensor.detach().cpu().contiguous(), path)",
    ),
    (
        "pt",
        "thousands of dimensions",
        _saved(_tensor([1] * 2000, [0] * 2000)),
        "DIR/x.pt: holds more than one tensor: its pickle is too long; save it again: torch.save(tensor.detach().cpu().contiguous(), path)",
    ),
    (
        "pt",
        "sizes beyond any",
        _saved(_tensor([0, 2**100], [1, 1])),
        "DIR/x.pt: is damaged: its shape, strides or offset are not valid numbers; save it again: torch.save(tensor.detach().cpu().contiguous(), path)",
    ),
    (
        "pt",
        "endless hash",
        _saved(b"\x80\x02}" + _doubled(60) + b"Ns."),
        "DIR/x.pt: is damaged: its pickle refers to itself too often; save it again: torch.save(tensor.detach().cpu().contiguous(), path)",
    ),
    (
        "pt",
        "endless size",
        _saved(_tensor([4], [1], _doubled(12))),
        "DIR/x.pt: is damaged: the size of a storage is not a valid number; save it again: torch.save(tensor.detach().cpu().contiguous(), path)",
    ),
    (
        "pt",
        "half a name",
        _saved(b"\x80\x02ctorch\nC\x01\nctorch"),
        "DIR/x.pt: is damaged: its pickle cannot be read (no newline found when trying to read stringnl); save it again: torch.save(tensor.detach().cpu().contiguous(), path)",
    ),
    (
        "meta",
        "nested",
        _UNKNOWN,
        "DIR/compiled_meta.json: is not a valid compiled_meta.json: is nested too deeply; compile again, or remove the file to do without it",
    ),
    (
        "meta",
        "no text",
        b'{"schema": 1, "platform": "\xff"}',
        "DIR/compiled_meta.json: is not a valid compiled_meta.json: is not UTF-8 text; compile again, or remove the file to do without it",
    ),
    (
        "meta",
        "shape",
        b'{"schema": 1, "params": [{"name": "a", "direction": "In", "shape": [1000000, 1000000000], "dtype": "float32"}]}',
        "DIR/compiled_meta.json: params[0].shape: [1000000, 1000000000] does not fit into memory; compile again, or remove the file to do without it",
    ),
    (
        "meta",
        "extent",
        b'{"schema": 1, "params": [{"name": "a", "direction": "In", "shape": [-2], "dtype": "float32"}]}',
        "DIR/compiled_meta.json: is not a valid compiled_meta.json: Expected `int` >= -1 - at `$.params[0].shape[0]`; compile again, or remove the file to do without it",
    ),
    (
        "interface",
        "nested",
        _UNKNOWN,
        "DIR/interface.json: is not a valid interface.json: is nested too deeply; build the artifact again",
    ),
    (
        "interface",
        "no text",
        b'{"artifact": "\xff"}',
        "DIR/interface.json: is not a valid interface.json: is not UTF-8 text; build the artifact again",
    ),
    (
        "interface",
        "cut off",
        b'{"schema": 1, "artifact": "x", "vint',
        "DIR/interface.json: is not a valid interface.json: Input data was truncated; build the artifact again",
    ),
    (
        "interface",
        "empty",
        b"",
        "DIR/interface.json: is not a valid interface.json: Input data was truncated; build the artifact again",
    ),
    (
        "interface",
        "dtype",
        _interface("params", 0, "dtype", value="flot32"),
        "DIR/interface.json: is not a valid interface.json: params[0].dtype: unknown 'flot32'; build the artifact again",
    ),
    (
        "interface",
        "shape",
        _interface("params", 0, "shape", value=[10**9, 10**9]),
        "DIR/interface.json: is not a valid interface.json: params[0].shape: [1000000000, 1000000000] does not fit into memory; build the artifact again",
    ),
    (
        "interface",
        "index",
        _interface("params", 0, "index", value=10**9),
        "DIR/interface.json: is not a valid interface.json: params[0].index: 1000000000 is not 0, which follows; build the artifact again",
    ),
    (
        "interface",
        "direction",
        _interface("params", 0, "direction", value="SIDEWAYS"),
        "DIR/interface.json: is not a valid interface.json: params[0].direction: unknown 'SIDEWAYS'; build the artifact again",
    ),
    (
        "interface",
        "name",
        _interface("params", 0, "name", value="../../x"),
        "DIR/interface.json: is not a valid interface.json: params[0].name: '../../x' is not a valid parameter name; build the artifact again",
    ),
    (
        "interface",
        "func_id",
        _interface("kernels", 0, "func_id", value=10**12),
        "DIR/interface.json: is not a valid interface.json: kernels[0].func_id: 1000000000000 is not a number of 0 or more; build the artifact again",
    ),
    (
        "interface",
        "kernel's name",
        _interface("kernels", 0, "name", value="../k"),
        "DIR/interface.json: is not a valid interface.json: kernels[0].name: '../k' cannot name a kernel; build the artifact again",
    ),
    (
        "interface",
        "signature",
        _interface("kernels", 0, "signature", value=["IN", "X"]),
        "DIR/interface.json: is not a valid interface.json: kernels[0].signature: unknown 'X'; build the artifact again",
    ),
    (
        "interface",
        "threads",
        _interface("aicpu_thread_num", value=-1),
        "DIR/interface.json: is not a valid interface.json: aicpu_thread_num: -1 is not a number of 0 or more; build the artifact again",
    ),
    (
        "interface",
        "order",
        _interface("parameter_order", value="tx"),
        "DIR/interface.json: is not a valid interface.json: parameter_order: 'tx' has more than t, s and -; build the artifact again",
    ),
    ("compiled_files", "nested", _UNKNOWN, ""),
    (
        "orchestration",
        "argument beyond any",
        _entry(f"auto a = orch_args.tensor({10**12});"),
        "DIR/orchestration/vector_dag.cpp:3: takes argument 1000000000000; use an index below 65536: an orchestration takes at most that many arguments",
    ),
    (
        "orchestration",
        "nested",
        _entry(f"int a = {'(' * 20_000}1{')' * 20_000};"),
        "DIR/orchestration/vector_dag.cpp:3: is nested too deeply to be parsed; compile again, or split the nested code",
    ),
    (
        "orchestration",
        "squares",
        _entry("int a0 = 10;" + "".join(f"int a{n + 1} = a{n} * a{n};" for n in range(80))),
        "",
    ),
    (
        "orchestration",
        "doubled functions",
        _entry("auto f0 = [](){};" + "".join(f"auto f{n + 1} = x ? f{n} : f{n};" for n in range(60))),
        "",
    ),
    (
        "orchestration",
        "calls of calls",
        _entry(
            "f0();",
            "".join(f"void f{n}() {{ f{n + 1}(); f{n + 1}(); f{n + 1}(); }}\n" for n in range(22)) + "void f22() {}",
        ),
        "",
    ),
    ("orchestration", "range beyond any", _entry(f"for (int i = 0; i < {2**64 - 1}; i += 1) {{ g(i); }}"), ""),
    (
        "orchestration",
        "open comments",
        _entry("/*" * 50_000),
        "DIR/orchestration/vector_dag.cpp:3: is nested too deeply to be parsed; compile again, or split the nested code",
    ),
    (
        "orchestration",
        "open strings",
        _entry('"' + '\\"' * 50_000),
        "DIR/orchestration/vector_dag.cpp: does not define the function 'aicpu_orchestration_entry'; correct ORCHESTRATION.function_name or ORCHESTRATION.source in the manifest",
    ),
    (
        "orchestration",
        "one long word",
        _entry("", f"void f({'const' * 20_000} x) {{}}").replace(
            b"const ChipTaskArgs", b"const " + b"const" * 20_000 + b" ChipTaskArgs"
        ),
        "",
    ),
    ("orchestration", "return outside", b"return 1;\n" + _entry(""), ""),
    (
        "lint",
        "thousands of digits",
        _entry(f"auto a = orch_args.tensor({_NUMBER}); int expected_arg_count = {_NUMBER};"),
        "",
    ),
    ("lint", "open calls", _entry("x.add_input(" * 20_000), ""),
    ("sites", "thousands of digits", _entry(f"rt_submit_aiv_task({_NUMBER}, params);"), ""),
    ("sites", "open calls", _entry("x.add_input(" * 20_000), ""),
    (
        "kernel",
        "one long word",
        b"static __aicore__ void f(" + b"a" * 100_000 + b"-) {\n",
        "DIR/k.cpp: has no '// --- ptoas-generated code ---' line, so no new body can be written into this file; compile the program again",
    ),
    (
        "kernel",
        "open comments",
        b"kernel_entry(__gm__ int64_t* args) {" + b"/*" * 50_000,
        "DIR/k.cpp: has no '// --- ptoas-generated code ---' line, so no new body can be written into this file; compile the program again",
    ),
    (
        "kernel",
        "long blank",
        b"kernel_entry(__gm__ int64_t* args) { x =" + b" " * 100_000,
        "DIR/k.cpp: has no '// --- ptoas-generated code ---' line, so no new body can be written into this file; compile the program again",
    ),
    (
        "kernel",
        "many assignments",
        b"kernel_entry(__gm__ int64_t* args) {" + b"a = b * c = " * 10_000,
        "DIR/k.cpp: has no '// --- ptoas-generated code ---' line, so no new body can be written into this file; compile the program again",
    ),
    (
        "pto",
        "no text",
        _edited("_jit_vector_dag/ptoas/kernel_add.pto", "module", "m\udcffodule"),
        "DIR/unit.pto:1:1: expected 'module' or 'func.func', found 'm'",
    ),
    (
        "pto",
        "thousands of equal lines",
        _edited("_jit_vector_dag/ptoas/kernel_add.pto", "return", "return\n" * 9000 + "return"),
        "",
    ),
    ("units", "nested", b'{"kernel_add": ' + _DEEP, ""),
    ("units", "other values", b'{"kernel_add": {"pto": 1, "assembled": null, "bodies": 3}}', ""),
    (
        "verdict",
        "cut off",
        b'{"schema": 1, "status": "pass", "arti',
        "DIR/verdict.json: is not a verdict: Input data was truncated; replay again",
    ),
    (
        "verdict",
        "status",
        b'{"schema": 1, "status": "well", "artifact": "a", "platform": "p", "runtime": "r"}',
        "DIR/verdict.json: is not a verdict: Invalid enum value 'well' - at `$.status`; replay again",
    ),
    ("verdict", "nested", _UNKNOWN, "DIR/verdict.json: is not a verdict: is nested too deeply; replay again"),
    ("golden", "nested", b"RTOL = " + b"(" * 100 + b"-" * 100_000 + b"1", ""),
    ("golden", "no text", b"RTOL = 1e-3 # \xff", ""),
    ("golden", "no key", b"A = {[]: 1}\nB = {{}}", ""),
    (
        "golden",
        "beyond any",
        b"RTOL = 0x" + b"f" * 2000,
        "DIR/golden.py: RTOL = a number of 8000 bits is not a tolerance; write a finite number of 0 or more, or give RTOL=",
    ),
    (
        "golden",
        "lists of what is beyond any",
        b"RTOL = [1, {0x" + b"f" * 5000 + b"}]",
        "DIR/golden.py: RTOL = [1, {a number of 20000 bits}] is not a tolerance; write a finite number of 0 or more, or give RTOL=",
    ),
    (
        "args_dump",
        "nested",
        b'{"args": ' + _DEEP,
        "DIR/args_dump.json: is not JSON: nested too deeply; run again with DUMP=2, because the run that wrote the file did not finish",
    ),
    (
        "args_dump",
        "infinite",
        b'{"args": [{"task_id": 1, "arg_index": Infinity, "role": "input", "stage": "before", "dtype": "FLOAT32"}]}',
        "DIR/args_dump.json: args[0]: inf is not a number from -1 to 2147483647; run again with DUMP=2",
    ),
    (
        "args_dump",
        "shape",
        b'{"args": [{"task_id": 1, "arg_index": 0, "role": "input", "stage": "before", "dtype": "FLOAT32", "shape": [1000000, 1000000000]}]}',
        "DIR/args_dump.json: args[0]: shape [1000000, 1000000000] does not fit into memory; run again with DUMP=2",
    ),
    (
        "args_dump",
        "other values",
        b'{"args": [{"task_id": 1, "arg_index": 0, "role": [], "stage": "before", "dtype": "FLOAT32", "shape": 3}]}',
        "DIR/args_dump.json: args[0]: '[]' is no known role or stage; run again with DUMP=2",
    ),
    (
        "args_dump",
        "no elements",
        b'{"bin_file": "args.bin", "args": [{"task_id": 1, "arg_index": 0, "role": "input", "stage": "before", "dtype": "FLOAT32", "shape": [0, 0], "bin_size": 4}]}',
        "",
    ),
    (
        "graph",
        "edge to nowhere",
        b'{"tasks": [{"task_id": 1}], "edges": [{"pred": 1, "succ": 77}]}',
        "DIR/deps.json: edges[0]: 0:77 is not the id of a task in the graph; run again with DEP_GEN=1",
    ),
    (
        "graph",
        "infinite",
        b'{"tasks": [{"task_id": 1, "kernel_ids": [Infinity]}], "edges": []}',
        "DIR/deps.json: tasks[0]: inf is not a number from -1 to 2147483647; run again with DEP_GEN=1",
    ),
    (
        "graph",
        "thousands of digits",
        f'{{"tasks": [], "edges": [["{_NUMBER}", 2]]}}'.encode(),
        "DIR/deps.json: edges[0]: '99999999999999999999999999999999' is not a valid task id; run again with DEP_GEN=1",
    ),
    ("graph", "no list", b'{"tasks": 3, "edges": []}', "DIR/deps.json: tasks[0]: is no list; run again with DEP_GEN=1"),
    (
        "timeline",
        "core beyond any",
        b'{"tasks": [{"core_id": 1000000000000, "task_id": 1, "start_time_us": 0, "end_time_us": 1}]}',
        "DIR/chip_swimlane_records.json: is not a timeline: 1000000000000 is not a number from 0 to 65535; run again with SWIMLANE=4",
    ),
    (
        "timeline",
        "no clock",
        b'{"metadata": {"clock_freq_hz": 0}, "aicore_tasks": []}',
        "DIR/chip_swimlane_records.json: is not a timeline: 0 is not a number from 1 to 18446744073709551615; run again with SWIMLANE=4",
    ),
    (
        "timeline",
        "infinite",
        b'{"tasks": [{"core_id": 0, "task_id": 1, "start_time_us": 0, "end_time_us": Infinity}]}',
        "DIR/chip_swimlane_records.json: is not a timeline: inf is not a time; run again with SWIMLANE=4",
    ),
    (
        "timeline",
        "words for times",
        b'{"tasks": [{"core_id": 0, "task_id": 1, "start_time_us": 0, "end_time_us": 1, "dispatch_time_us": "x"}]}',
        "DIR/chip_swimlane_records.json: is not a timeline: 'x' is not a time; run again with SWIMLANE=4",
    ),
    ("log", "thousands of digits", _log(f"runtime failed with rc=-{_NUMBER}") + _log(_STALL.format(_NUMBER)), ""),
    ("log", "one long line", _log("sub_class=S1 " * 50_000) + _log("sub_class=S3" * 330), ""),
    ("name_map", "nested", _UNKNOWN, ""),
    ("name_map", "no names", b'{"callable_id_to_name": ["add"]}', ""),
    (
        "findings",
        "nested",
        _UNKNOWN,
        "DIR/lint.json: is not a list of findings: is nested too deeply; run the tool again",
    ),
    (
        "accesses",
        "nested",
        _UNKNOWN,
        "DIR/accesses.json: is not a record of accesses: is nested too deeply; replay the checked build again",
    ),
    (
        "regions",
        "beyond the tasks",
        bytes(28) + b"\xff" * 36,
        "DIR/accesses.bin: is not a record of accesses: a region of a task that is not there; replay the checked build again",
    ),
    ("pack", "no text", b"", "DIR/x.tar.zst: is truncated; ask for the archive again"),
    ("passes", "nested", b"x = " + b"-" * 100_000 + b"1", ""),
    (
        "golden_stamp",
        "a file name that is too long",
        b'{"schema": 2, "golden": "0", "files": {"data/in/' + b"a" * 5000 + b'.pt": "0"}}',
        "",
    ),
    ("pass_logs", "a file name that is too long", b"/x/" + b"a" * 5000 + b".py:1: warning: w\n", ""),
    ("pass_logs", "thousands of digits", f"/x/a.py:{_NUMBER}: warning: w\n".encode(), ""),
    ("pass_times", "nested", _UNKNOWN, ""),
    ("elf", "no end of a name", _elf(64, "<I", 2**31), "is truncated"),
    ("elf", "strings of nowhere", _elf(64 + 40, "<I", 9), "has a damaged symbol table"),
    ("elf", "half a symbol", _elf(64 + 32, "<Q", 23), "has a damaged symbol table"),
    ("elf", "symbols without end", _elf(64 + 32, "<Q", 2**60), "has symbol tables that overlap"),
    ("pins", "nested", b"a = " + b"[" * 4000, "DIR/pins.toml: is nested too deeply"),
    (
        "pins",
        "a key of many parts",
        b"a." * 20_000 + b"a = 1",
        "DIR/pins.toml: has a line of 40005 characters, which is too long for a revision or address; correct the file",
    ),
    ("pins", "no text", b"a = '\xff'", "DIR/pins.toml: cannot be read: it is not UTF-8 text (line 1)"),
    ("isa_pin", "no text", b"\xff\xfe", "DIR/pto_isa.pin: cannot be read: it is not UTF-8 text (line 1); restore it"),
    ("bisect", "nested", _UNKNOWN, ""),
    ("golden_stamp", "outside", b'{"golden": "", "files": {"../../x": ""}}', ""),
    ("golden_stamp", "no names", b'{"golden": "", "files": ["x"]}', ""),
    ("probe_events", "no text", b"\xff" * 24 + bytes(40), ""),
    ("probe_events", "cut off", b"TADD".ljust(24, b"\0") + struct.pack("<IiQIII4x", 1, 0, 0, 2**31, 2**31, 2**31), ""),
    ("compile_commands", "other values", b'[{"directory": 1}, 3]', ""),
    ("binary_context", "nested", _DEEP, ""),
    (
        "lint_kernel",
        "a name of ten thousand scopes",
        b"void kernel_entry(int64_t* args) {" + b":Shape" * 12_000 + b"}",
        "",
    ),
    (
        "ranks",
        "a beginning beyond any number",
        lambda: encoded({**ranks_document(), "origin_ns": 10**400}),
        "DIR/dfx_outputs/ranks.json: is not a record of a run: its start time is out of range; replay with SWIMLANE=4 DEP_GEN=1",
    ),
    ("sites", "many blanks after a type", b"Tensor" + b" " * 60_000 + b"\n" * 60_000, ""),
    ("accesses", "a name that no file can have", lambda: _accesses(b"kernels/aiv/kernel_add.so", b"kernels" * 600), ""),
    ("accesses", "a name that is not a pattern", lambda: _accesses(b"TLOAD", rb"*T\\1"), ""),
)
