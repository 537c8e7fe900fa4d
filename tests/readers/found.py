"""Files that readers once failed on: with a traceback, without an end, or with all of the memory."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

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

#: Reader, what was found, and the file.
FOUND: tuple[tuple[str, str, bytes | Callable[[], bytes]], ...] = (
    ("manifest", "a list of lists", _manifest("", "A = [" + "0," * 60_000 + "]\nB = [" + "*A," * 40_000 + "]")),
    ("manifest", "a text of texts", _manifest("", f'A = "{"x" * 60_000}"\nB = f"{"{A}" * 40_000}"')),
    ("manifest", "much work", _manifest("", "A = [" + "0," * 60_000 + "]\n" + "B = [*A]\n" * 2000)),
    ("manifest", "endless value", _manifest(f'"func_id": L59, {_KERNEL}', _shared(60))),
    ("manifest", "endless index", _manifest("", _shared(60).replace("[", "(").replace("]", ")") + "A = {}\nB = A[L59]")),
    ("manifest", "thousands of digits", _manifest(f'"func_id": 0x{"f" * 5000}, {_KERNEL}')),
    ("manifest", "func_id beyond any", _manifest(f'"func_id": {10**12}, {_KERNEL}')),
    ("manifest", "no text", _manifest('"func_id": 0, "core_type": "aiv", "source": "\\ud800.cpp"')),
    ("manifest", "endless path", _manifest(f'"func_id": 0, "core_type": "aiv", "source": "/{"a/" * 30_000}"')),
    ("manifest", "blocks beyond any", _manifest(f'"func_id": 0, {_KERNEL}', after=f'RUNTIME_CONFIG = {{"block_dim": {2**70}}}')),
    ("manifest", "config beyond any", _manifest(f'"func_id": 0, {_KERNEL}', after=f'RUNTIME_CONFIG = {{"x": {2**64 - 1}}}')),
    ("manifest", "chain", _manifest("", f"A = x{'.a' * 100_000}")),
    ("pt", "repeated bytes", _saved(_tensor([10**6, 10**6], [0, 0]))),
    ("pt", "windows on windows", _saved(_tensor([2] * 30, [0, 1] * 15, b"M\x10\0"), bytes(64))),
    ("pt", "thousands of dimensions", _saved(_tensor([1] * 2000, [0] * 2000))),
    ("pt", "sizes beyond any", _saved(_tensor([0, 2**100], [1, 1]))),
    ("pt", "endless hash", _saved(b"\x80\x02}" + _doubled(60) + b"Ns.")),
    ("pt", "endless size", _saved(_tensor([4], [1], _doubled(12)))),
    ("meta", "nested", _UNKNOWN),
    ("meta", "no text", b'{"schema": 1, "platform": "\xff"}'),
    ("meta", "shape", b'{"schema": 1, "params": [{"name": "a", "direction": "In", "shape": [1000000, 1000000000], "dtype": "float32"}]}'),
    ("meta", "extent", b'{"schema": 1, "params": [{"name": "a", "direction": "In", "shape": [-2], "dtype": "float32"}]}'),
    ("interface", "nested", _UNKNOWN),
    ("interface", "no text", b'{"artifact": "\xff"}'),
    ("interface", "cut off", b'{"schema": 1, "artifact": "x", "vint'),
    ("interface", "empty", b""),
    ("interface", "dtype", _interface("params", 0, "dtype", value="flot32")),
    ("interface", "shape", _interface("params", 0, "shape", value=[10**9, 10**9])),
    ("interface", "index", _interface("params", 0, "index", value=10**9)),
    ("interface", "direction", _interface("params", 0, "direction", value="SIDEWAYS")),
    ("interface", "name", _interface("params", 0, "name", value="../../x")),
    ("interface", "func_id", _interface("kernels", 0, "func_id", value=10**12)),
    ("interface", "kernel's name", _interface("kernels", 0, "name", value="../k")),
    ("interface", "signature", _interface("kernels", 0, "signature", value=["IN", "X"])),
    ("interface", "threads", _interface("aicpu_thread_num", value=-1)),
    ("interface", "order", _interface("parameter_order", value="tx")),
    ("compiled_files", "nested", _UNKNOWN),
    ("orchestration", "argument beyond any", _entry(f"auto a = orch_args.tensor({10**12});")),
    ("orchestration", "nested", _entry(f"int a = {'(' * 20_000}1{')' * 20_000};")),
    ("orchestration", "squares", _entry("int a0 = 10;" + "".join(f"int a{n + 1} = a{n} * a{n};" for n in range(80)))),
    ("orchestration", "doubled functions", _entry("auto f0 = [](){};" + "".join(f"auto f{n + 1} = x ? f{n} : f{n};" for n in range(60)))),
    ("orchestration", "calls of calls", _entry("f0();", "".join(f"void f{n}() {{ f{n + 1}(); f{n + 1}(); f{n + 1}(); }}\n" for n in range(22)) + "void f22() {}")),
    ("orchestration", "range beyond any", _entry(f"for (int i = 0; i < {2**64 - 1}; i += 1) {{ g(i); }}")),
    ("orchestration", "open comments", _entry("/*" * 50_000)),
    ("orchestration", "open strings", _entry('"' + '\\"' * 50_000)),
    ("orchestration", "one long word", _entry("", f"void f({'const' * 20_000} x) {{}}").replace(b"const ChipTaskArgs", b"const " + b"const" * 20_000 + b" ChipTaskArgs")),
    ("orchestration", "return outside", b"return 1;\n" + _entry("")),
    ("lint", "thousands of digits", _entry(f"auto a = orch_args.tensor({_NUMBER}); int expected_arg_count = {_NUMBER};")),
    ("lint", "open calls", _entry("x.add_input(" * 20_000)),
    ("sites", "thousands of digits", _entry(f"rt_submit_aiv_task({_NUMBER}, params);")),
    ("sites", "open calls", _entry("x.add_input(" * 20_000)),
    ("kernel", "one long word", b"static __aicore__ void f(" + b"a" * 100_000 + b"-) {\n"),
    ("kernel", "open comments", b"kernel_entry(__gm__ int64_t* args) {" + b"/*" * 50_000),
    ("kernel", "long blank", b"kernel_entry(__gm__ int64_t* args) { x =" + b" " * 100_000),
    ("kernel", "many assignments", b"kernel_entry(__gm__ int64_t* args) {" + b"a = b * c = " * 10_000),
    ("pto", "no text", _edited("_jit_vector_dag/ptoas/kernel_add.pto", "module", "m\udcffodule")),
    ("units", "nested", b'{"kernel_add": ' + _DEEP),
    ("units", "other values", b'{"kernel_add": {"pto": 1, "assembled": null, "bodies": 3}}'),
    ("settled", "nested", b'{"a": ' + _DEEP),
    ("verdict", "cut off", b'{"schema": 1, "status": "pass", "arti'),
    ("verdict", "status", b'{"schema": 1, "status": "well", "artifact": "a", "platform": "p", "runtime": "r"}'),
    ("verdict", "nested", _UNKNOWN),
    ("golden", "nested", b"RTOL = " + b"(" * 100 + b"-" * 100_000 + b"1"),
    ("golden", "no text", b"RTOL = 1e-3 # \xff"),
    ("golden", "no key", b"A = {[]: 1}\nB = {{}}"),
    ("golden", "beyond any", b"RTOL = 0x" + b"f" * 2000),
    ("args_dump", "nested", b'{"args": ' + _DEEP),
    ("args_dump", "infinite", b'{"args": [{"task_id": 1, "arg_index": Infinity, "role": "input", "stage": "before", "dtype": "FLOAT32"}]}'),
    ("args_dump", "shape", b'{"args": [{"task_id": 1, "arg_index": 0, "role": "input", "stage": "before", "dtype": "FLOAT32", "shape": [1000000, 1000000000]}]}'),
    ("args_dump", "other values", b'{"args": [{"task_id": 1, "arg_index": 0, "role": [], "stage": "before", "dtype": "FLOAT32", "shape": 3}]}'),
    ("args_dump", "no elements", b'{"bin_file": "args.bin", "args": [{"task_id": 1, "arg_index": 0, "role": "input", "stage": "before", "dtype": "FLOAT32", "shape": [0, 0], "bin_size": 4}]}'),
    ("graph", "edge to nowhere", b'{"tasks": [{"task_id": 1}], "edges": [{"pred": 1, "succ": 77}]}'),
    ("graph", "infinite", b'{"tasks": [{"task_id": 1, "kernel_ids": [Infinity]}], "edges": []}'),
    ("graph", "thousands of digits", f'{{"tasks": [], "edges": [["{_NUMBER}", 2]]}}'.encode()),
    ("graph", "no list", b'{"tasks": 3, "edges": []}'),
    ("timeline", "core beyond any", b'{"tasks": [{"core_id": 1000000000000, "task_id": 1, "start_time_us": 0, "end_time_us": 1}]}'),
    ("timeline", "no clock", b'{"metadata": {"clock_freq_hz": 0}, "aicore_tasks": []}'),
    ("timeline", "infinite", b'{"tasks": [{"core_id": 0, "task_id": 1, "start_time_us": 0, "end_time_us": Infinity}]}'),
    ("timeline", "words for times", b'{"tasks": [{"core_id": 0, "task_id": 1, "start_time_us": 0, "end_time_us": 1, "dispatch_time_us": "x"}]}'),
    ("log", "thousands of digits", _log(f"runtime failed with rc=-{_NUMBER}") + _log(_STALL.format(_NUMBER))),
    ("log", "one long line", _log("sub_class=S1 " * 50_000)),
    ("name_map", "nested", _UNKNOWN),
    ("name_map", "no names", b'{"callable_id_to_name": ["add"]}'),
    ("findings", "nested", _UNKNOWN),
    ("accesses", "nested", _UNKNOWN),
    ("regions", "beyond the tasks", bytes(28) + b"\xff" * 36),
    ("pack", "no text", b""),
    ("passes", "nested", b"x = " + b"-" * 100_000 + b"1"),
    ("listing", "half a carry", b"for i in range(0, 1) carrying a:\n    pass\n"),
    ("pass_logs", "thousands of digits", f"/x/a.py:{_NUMBER}: warning: w\n".encode()),
    ("pass_times", "nested", _UNKNOWN),
    ("elf", "no end of a name", _elf(64, "<I", 2**31)),
    ("elf", "strings of nowhere", _elf(64 + 40, "<I", 9)),
    ("elf", "half a symbol", _elf(64 + 32, "<Q", 23)),
    ("elf", "symbols without end", _elf(64 + 32, "<Q", 2**60)),
    ("pins", "nested", b"a = " + _DEEP),
    ("pins", "no text", b"a = '\xff'"),
    ("isa_pin", "no text", b"\xff\xfe"),
    ("bisect", "nested", _UNKNOWN),
    ("golden_stamp", "outside", b'{"golden": "", "files": {"../../x": ""}}'),
    ("golden_stamp", "no names", b'{"golden": "", "files": ["x"]}'),
    ("probe_events", "no text", b"\xff" * 24 + bytes(40)),
    ("probe_events", "cut off", b"TADD".ljust(24, b"\0") + struct.pack("<IiQIII4x", 1, 0, 0, 2**31, 2**31, 2**31)),
    ("compile_commands", "other values", b'[{"directory": 1}, 3]'),
    ("binary_context", "nested", _DEEP),
)  # fmt: skip
