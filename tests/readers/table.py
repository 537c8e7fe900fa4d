"""The readers of files that somebody else may have written: good files of each, and what reading one means.

Reading is what the tools do with a file, not parsing alone: what a reader lets through must not break those behind it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import io
import math
import os
import random
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from ctypes import sizeof
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError, load_artifact, snapshot
from pypto_build.artifact.compiled_files import CompiledFiles, encode_compiled_files, read_compiled_files
from pypto_build.artifact.files import read_bytes
from pypto_build.artifact.first_sight import FIRST_SIGHT, changes, first_text, remember
from pypto_build.artifact.interface import Interface, encode_interface, read_interface, sign
from pypto_build.artifact.layout import read_meta
from pypto_build.artifact.manifest import read_manifest
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.facts.layouts import REPORT_BYTES, FlightHead, FlightTrack
from pypto_build.proof import Action, OutputDir, Result, Store
from pypto_build.proof.action import InputSet
from pypto_build.proof.digests import ABSENT
from pypto_build.proof.record import MORE, RECORD, Record
from pypto_build.proof.store import sealed
from pypto_build.pto import PtoError
from pypto_build.toolchain import ToolchainError, own_text
from pypto_build.toolchain.elf import ElfError, extract_text, read_elf
from pypto_build.toolchain.host import INCLUDE_DIR
from pypto_build.toolchain.pins import PINS_FILE, read_pins
from tests.readers import mutate, ranks

EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"
DAG = EXAMPLES / "_jit_vector_dag"


@dataclass(frozen=True)
class Reader:
    """One reader. `place` makes the directory it works in and returns where the file belongs; `read` reads it there.

    `errors` are the types of its own errors; of these it may raise any, of others none. `named` tells that they name
    the file, `fifo` that it may meet a pipe in its place; `modules` are imported before the time counts.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    damage: mutate.Mutation
    file: str = "file"
    base: Path | None = None
    errors: tuple[type[BaseException], ...] = (ArtifactError,)
    named: bool = True
    fifo: bool = True
    modules: tuple[str, ...] = ()

    def load(self) -> None:
        """Import what takes long, so that it is not counted."""
        for module in self.modules:
            importlib.import_module(module)

    def place(self, directory: Path) -> Path:
        """Prepare `directory`; returns the path of the file to be read."""
        if self.base is not None:
            shutil.copytree(self.base, directory, dirs_exist_ok=True)
        path = directory / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _examples(pattern: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [path.read_bytes() for path in sorted(EXAMPLES.glob(pattern))]


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# -- artifact ---------------------------------------------------------------------------------------------------------


_NESTED = b"""from pathlib import Path
from simpler.task_interface import ArgDirection as D
import os
_ROOT = Path(__file__).parent.resolve()
_DIRS = [str(_ROOT / "kernels"), os.path.join(str(_ROOT), "x")]
_S = [D.IN, D.OUT]
CALLABLE = {"orchestration": {"source": str(_ROOT / "orchestration" / "vector_dag.cpp"), "signature": [*_S, D.INOUT]},
  "incores": [{"func_id": 0, "name": "kernel_add", "core_type": "aiv", "signature": _S + [D.SCALAR],
     "source": f"{_ROOT}/kernels/aiv/kernel_add.cpp", "external": False},
   {**{"func_id": 1}, "core_type": "aiv", "source": str(_ROOT / "kernels/aiv/kernel_mul.cpp")}]}
RUNTIME_CONFIG = {"runtime": "tensormap_and_ringbuffer", "block_dim": 24, "aicpu_thread_num": 4, "extra": ["a", 1]}
"""


def _manifest(path: Path) -> None:
    read_manifest(path)
    encode_interface(sign(load_artifact(path.parent)).interface)


def _orchestration(path: Path) -> None:
    encode_interface(sign(load_artifact(path.parents[1])).interface)


def _pt_seeds() -> list[bytes]:
    seeds = list(_examples("_jit_*/data/in/*.pt")())
    with _directory() as directory:
        for dtype, size in (("float32", 4), ("uint16", 2), ("bool", 1), ("float64", 8)):
            write_pt(directory / "x.pt", dtype, (2, 3), bytes(6 * size))
            seeds.append((directory / "x.pt").read_bytes())
    return [seed for seed in seeds if len(seed) < 100_000]


def _pt(path: Path) -> None:
    tensor = read_pt(path)
    assert len(tensor.contiguous()) == tensor.numel * tensor.itemsize


def _bound(path: Path) -> None:
    from pypto_build.replay.binding import bind, with_goldens

    data = snapshot(path.parents[2])
    with_goldens(bind(_interface(), data), data)


@cache
def _interface() -> Interface:
    return sign(load_artifact(DAG)).interface


def _interface_seeds() -> list[bytes]:
    return [encode_interface(sign(load_artifact(path)).interface) for path in sorted(EXAMPLES.glob("_jit_*"))]


def _read_interface(path: Path) -> None:
    from pypto_build.replay.arena import Arena
    from pypto_build.replay.binding import bind, with_goldens

    interface = read_interface(path)
    declared = sum(math.prod(map(abs, param.shape or ())) for param in interface.params)
    places = (
        [path.parent] if 10**6 < declared < 10**11 else [path.parent, path.parent / "none"]
    )  # not to make it all up
    for data in map(snapshot, places):
        with contextlib.suppress(ArtifactError):
            binding = with_goldens(bind(interface, data), data)
            Arena([tensor.nbytes for tensor in binding.tensors])


def _compiled_seeds() -> list[bytes]:
    document = CompiledFiles(
        1, "p.py", ("p.py", "lib/q.py"), ("kernels/aiv/k.cpp", "golden.py"), {"golden.py": "0" * 64}
    )
    return [encode_compiled_files(document)]


def _sights() -> Sequence[bytes]:
    """Return the first-sight records of two artifacts."""
    contents = []
    with tempfile.TemporaryDirectory() as directory:
        for name in ("_jit_vector_dag", "_jit_softmax"):
            (Path(directory) / name).mkdir()
            remember(Path(directory) / name, load_artifact(EXAMPLES / name))
            contents.append((Path(directory) / name / FIRST_SIGHT).read_bytes())
    return contents


def _first_sight(path: Path) -> None:
    artifact = load_artifact(path.parent)
    for change in changes(path.parent, artifact):
        assert change.words
    first_text(path.parent, "orchestration/vector_dag.cpp")


def _damage_sight(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The compressed bytes, or the text in them."""
    if rng.random() < 0.3:
        return mutate.damage_bytes(rng, data, others)
    return gzip.compress(mutate.damage_json(rng, gzip.decompress(data), [gzip.decompress(one) for one in others]), 1)


# -- pto --------------------------------------------------------------------------------------------------------------


def _pto(path: Path) -> None:
    from pypto_build.pto import parse_file, print_module
    from pypto_build.pto.assemble import assemble
    from pypto_build.pto.checks import check_module
    from pypto_build.pto.diff import diff_modules

    module = parse_file(path)
    print_module(module)
    diff_modules(module, module)
    if not check_module(module):
        assemble(module, "a2a3sim").text.encode()


def _pto_torch(path: Path) -> None:
    from pypto_build.pto import parse_file
    from pypto_build.pto.torch import torch_codegen

    torch_codegen(parse_file(path)).encode()


def _pto_errors() -> tuple[type[BaseException], ...]:
    from pypto_build.pto.torch import UnsupportedOperations

    return (PtoError, UnsupportedOperations)


def _kernel(path: Path) -> None:
    from pypto_build.artifact.cpp.wrapper import KernelFile
    from pypto_build.artifact.files import read_text
    from pypto_build.compiler.splice_files import passed_values
    from pypto_build.diagnose.lint.subject import read_wrapper
    from pypto_build.diagnose.recorded.names import unpacked
    from pypto_build.pto.splice import body_of, functions_of, has_signature, preprocess, replace_body
    from pypto_build.replay.reference import entry
    from pypto_build.rules.machinery.staleness import _body_digest

    unpacked.cache_clear()
    names = unpacked(path)[0]
    read_wrapper(path, path.name)
    text = read_text(path, errors="replace")
    passed_values(text, list(names.values())[:8])
    entry.read_entry(text, ["kernel_add", "kernel_mul"])
    _body_digest(path)
    KernelFile(text).uses(0)
    for function, parameters in list(functions_of(text).items())[:4]:
        with contextlib.suppress(PtoError):
            has_signature(text, function, parameters)
    body = body_of(text, str(path))
    replace_body(text, preprocess(body, text), str(path))


def _units(path: Path) -> None:
    from pypto_build.rules.machinery.staleness import find_stale, find_units

    artifact = load_artifact(DAG)
    find_stale(artifact, path.parent, find_units(artifact), "")


def _as_built(path: Path) -> None:
    from pypto_build.diagnose.extract.work import as_built

    as_built(load_artifact(DAG), path.parent)


def _tried(path: Path) -> None:
    from pypto_build.diagnose.reduce.judge import Log

    Log(path)


def _result_seeds() -> list[bytes]:
    sets = {
        "s": InputSet(
            (
                ("{root}/header", "1" * 64),
                ("{root}/missing", ABSENT),
                ("{bytes}ff2f", ABSENT),
                ("/usr/include/", "2" * 64),
            )
        )
    }
    result = Result(
        "k" * 64, {"{root}/source": "3" * 64}, {"the compiler": "g++"}, "w" * 64, ("s",), {"made": "4" * 64}
    )
    record = Record({"/usr/include/stdio.h": ((1, 2, 3, 4, 5, 6), "5" * 64)}, sets, {"made": result})
    return [msgspec.msgpack.encode(record)]


def _results(path: Path) -> None:
    """Ask a damaged record whose seal is right."""
    if path.is_file():
        path.write_bytes(sealed(path.read_bytes()))
    output_dir = OutputDir(path.parent, Store(path.parent / "store"), {"root": path.parent}, None)
    action = Action("made", ("true",), (str(path.parent / "source"),), ("made",))
    assert output_dir.proven(action) is None
    output_dir.reason(action)


def _added(path: Path) -> None:
    """The same of what was added to a record, though each piece is whole by its digest."""
    if path.is_file():
        data = path.read_bytes()
        seal = sealed(msgspec.msgpack.encode(Record()))
        path.with_name(RECORD).write_bytes(seal)
        piece = len(data).to_bytes(4, "little") + data
        path.write_bytes(seal[:32] + piece + hashlib.sha256(seal[:32] + piece).digest())
    output_dir = OutputDir(path.parent, Store(path.parent / "store"), {"root": path.parent}, None)
    action = Action("made", ("true",), (str(path.parent / "source"),), ("made",))
    assert output_dir.proven(action) is None
    output_dir.reason(action)


_UNITS = b"""{"kernel_add": {"pto": "0", "assembled": "", "bodies": {"kernel_add": "1"}, "chosen": {"prefer": "pto",
 "without": {"kernel_add": "2"}}}, "kernel_mul": {"pto": "0", "assembled": "1", "bodies": {"kernel_mul": ""}}}"""


# -- replay -----------------------------------------------------------------------------------------------------------


def _history_seeds() -> list[bytes]:
    from pypto_build.replay.history import History, Result, Run

    with tempfile.TemporaryDirectory() as directory:
        history = History(Path(directory, "h"))
        history.add(Run(1.0, "replay", "rev", 2.0), [Result("a", "pass", 1.0, 5), Result("b", "hang", reason="x")])
        history.add(Run(2.0, "replay", "rev2", 2.0), [Result("a", "mismatch", 1.0, 5)])
        return [history.path.read_bytes()]


def _history(path: Path) -> None:
    from pypto_build.diagnose.runs.__main__ import runs_page
    from pypto_build.replay.history import History

    history = History(path)
    history.past(["a", "b"])
    runs_page(history.runs(), history.results(), "x")


def _verdict_seeds() -> list[bytes]:
    from pypto_build.replay.verdict import ErrorInfo, Mismatch, OutputResult, Verdict, write_verdict

    first = [Mismatch([0, 1], 1.5, "nan"), Mismatch([3], 2, 3)]
    output = OutputResult("f", "mismatch", [2, 3], "float32", 6, 2, 0.5, 0.1, first, hints=["h"], detail="d")
    verdicts = [
        Verdict("pass", "a", "a2a3sim", "embedded", "2026-08", tasks=5, run_s=0.01, outputs=[output]),
        Verdict("hang", "a", "a2a3sim", "embedded", error=ErrorInfo("hang", "m", "3", "k", "h", ["d"]), seed=3),
    ]
    with _directory() as directory:
        made = []
        for verdict in verdicts:
            write_verdict(verdict, directory / "v.json")
            made.append((directory / "v.json").read_bytes())
    return made


def _verdict(path: Path) -> None:
    from pypto_build.interop.steps import signature
    from pypto_build.replay.report import last_line, output_hints, output_line
    from pypto_build.replay.verdict import read_verdict, write_verdict

    verdict = read_verdict(path)
    signature(verdict)
    last_line(verdict, 0.5)
    for output in verdict.outputs:
        _ = output_line(output), output_hints(output)
    write_verdict(verdict, path.with_name("again.json"))


def _golden(path: Path) -> None:
    from pypto_build.replay.tolerances import compared_outputs, tolerances

    tolerances(path.parent, None, None)
    compared_outputs(path.parent)


_GOLDEN = b"""'''Goldens.'''
import torch
__outputs__ = ["f", "g"]
RTOL = 1e-3
ATOL = -0.5
SHAPES = {"a": (3, 4), "b": [1, {"c": {1, 2}}]}
def generate_inputs(params): return {"a": torch.zeros(3)}
"""


# -- records of runs --------------------------------------------------------------------------------------------------


def _dump_seeds() -> list[bytes]:
    from tests.diagnose.runs import RING1, dumped, scalar, write_dump

    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    entries = [dumped(RING1, 0, values), dumped(RING1, 1, values, role="output"), scalar(RING1 + 1, 1, 2.5, func_id=1)]
    old = {"raw_shape": [4, 3], "offsets": [1, 0]}
    older = [{**entry, **old} for entry in dumped_without(entries)]
    with _directory() as directory:
        paths = [write_dump(directory / "a", entries), write_dump(directory / "b", older, name="tensor_dump")]
        return [path.read_bytes() for path in paths]


def dumped_without(entries: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Entries of a dump without the fields that came in May 2026."""
    return [{key: value for key, value in entry.items() if key not in ("strides", "start_offset")} for entry in entries]


def _dump(path: Path) -> None:
    from pypto_build.diagnose.dump.__main__ import parser
    from pypto_build.diagnose.dump.viewer import export, open_viewer

    (path.parent / "args.bin").write_bytes(bytes(range(48)))
    (path.parent / "tensor_dump.bin").write_bytes(bytes(48))
    viewer = open_viewer(path.parent, None)
    records = viewer.select(parser().parse_args([str(path)]))
    viewer.rows(records)
    for number, record in enumerate(records[:20]):
        with contextlib.suppress(ArtifactError):
            viewer.describe(record)
            if record.kind == "tensor" and number < 3:
                for form in ("pt", "npy", "txt"):
                    export(viewer, record, form, path.parent / "export")


def _graph_seeds() -> list[bytes]:
    from tests.diagnose.runs import vector_dag_graph

    graph = vector_dag_graph()
    graph["tensors"] = [
        {"tensor_id": "10", "buffer_addr": "0x1000", "version": 1, "dtype": "FLOAT32", "raw_shapes": [4, 4]},
        {"tensor_id": 11, "buffer_addr": 4096, "version": 0, "dtype": "INT8", "buffer_numel": 16},
    ]
    pairs = [[task["pred"], task["succ"]] for task in graph["edges"]]
    return [msgspec.json.encode(graph), msgspec.json.encode({"edges": pairs})]


def _timeline_seeds() -> list[bytes]:
    from tests.diagnose.runs import timeline_document

    new = timeline_document(((0, 0, 10, 20), (1, 1, 25, 45), (0, 2, 22, 30), (0, 4, 61, 70)), ("aiv", "aiv"))
    new["aicpu_orchestrator_phases"] = [[{"task_id": 1 << 32, "end_cycles": 5}, {"kind": "x"}]]
    old = {
        "version": 1,
        "tasks": [
            {
                "task_id": (1 << 32) + number,
                "core_id": number % 2,
                "core_type": "aiv",
                "start_time_us": 10.0 * number,
                "end_time_us": 10.0 * number + 5,
                "dispatch_time_us": 10.0 * number - 1,
                "finish_time_us": 10.0 * number + 6,
            }
            for number in range(4)
        ],
        "aicpu_orchestrator_phases": [{"task_id": 1 << 32, "end_time_us": 3.5}],
    }
    return [msgspec.json.encode(new), msgspec.json.encode(old)]


def _timing_seeds() -> list[bytes]:
    from pypto_build.replay.timing import Spread, Timing

    tasks = tuple(Spread(10.0, 9.5, 12.25, (1 << 32) + number) for number in range(3))
    return [msgspec.json.encode(Timing(True, 5, 2, Spread(60.0, 55.5, 71.0), tasks))]


def _timing(path: Path) -> None:
    """The timeline is a good one, of which the file says how it was taken."""
    path.with_name("chip_swimlane_records.json").write_bytes(_timeline_seeds()[0])
    _records(False)(path)


def _records(graph: bool) -> Callable[[Path], None]:
    """Everything `scons deps` and the page show of a graph or a timeline; the other one is a good one."""

    def read(path: Path) -> None:
        from pypto_build.diagnose.deps.text import dot, path_between, summary_lines, task_lines, trace
        from pypto_build.diagnose.recorded.evidence import Evidence
        from pypto_build.diagnose.report.collect import graph_data, timeline_data

        other = path.with_name("chip_swimlane_records.json" if graph else "deps.json")
        if not other.exists():
            other.write_bytes((_timeline_seeds() if graph else _graph_seeds())[0])
        evidence = Evidence(DAG, path.parent)
        summary_lines(evidence)
        graph_data(evidence)
        timeline_data(evidence)
        trace(evidence)
        if evidence.graph is None:
            return
        dot(evidence, evidence.graph)
        tasks = list(evidence.graph.by_id)
        for task in tasks[:5]:
            task_lines(evidence, task)
        if tasks:
            path_between(evidence.graph, tasks[0], tasks[-1])

    return read


def _log_seeds() -> list[bytes]:
    from tests.diagnose.corpus.logs import BUGS

    return [bug.edits[0][2].encode() for bug in BUGS]


def _log(path: Path) -> None:
    from pypto_build.diagnose.hang.__main__ import Hang, log_files, read_logs
    from pypto_build.diagnose.recorded.evidence import Evidence

    hang = Hang(read_logs(log_files(path)), Evidence(DAG, None), path.parent)
    hang.summary()
    hang.findings()


def _name_map(path: Path) -> None:
    from pypto_build.diagnose.recorded.names import find_names

    find_names(path.parent)


def _findings_seeds() -> list[bytes]:
    from pypto_build.diagnose.findings import Edit, Finding, Related, Report, as_json

    finding = Finding(
        "lint/x", "m", "a.cpp", 3, "h", detail=("d",), edits=(Edit("a.cpp", 3, "old", "new"),), tasks=(1, 2),
        related=(Related("b.cpp", 4, "there"),),
    )  # fmt: skip
    return [as_json(Report("lint", "a", (finding,), state="s"))]


def _findings(path: Path) -> None:
    from pypto_build.diagnose.findings import as_json, as_sarif, in_order, read_report, summary

    report = read_report(path)
    as_json(report)
    as_sarif(report, path.parent)
    summary(in_order(report.findings))


def _accesses_seeds() -> list[bytes]:
    tasks = [
        {
            "id": str((1 << 32) + number),
            "number": number,
            "kernels": [-1, kernel, -1],
            "block_num": 1,
            "manual": False,
            "host_waits": 0,
            "waits": [] if number == 0 else [[str(1 << 32), "tensormap"]],
            "args": [
                ["INPUT", 4096, 64, 0, 0, "float32", 4, False, 64],
                ["OUTPUT_EXISTING", 8192 + 4096 * number, 64, 0, 0, "float32", 4, False, 64],
            ],
        }
        for number, kernel in enumerate((0, 1, 2))
    ]
    document = {
        "schema": 2,
        "complete": True,
        "tasks": tasks,
        "host_waits": [{"readers": False, "tasks": [str(1 << 32)]}],
        "sites": [{"kernel": 0, "instruction": "TLOAD", "file": "kernels/aiv/kernel_add.so", "offset": "16"}],
        "errors": [
            {
                "kind": "valid-region",
                "message": "on PIPE_V reads what MTE2 wrote on PIPE_MTE2;",
                "site": 0,
                "other_site": -1,
                "task": 1,
                "block": 0,
                "member": 1,
                "count": 1,
            }
        ],
        "signalling": [],
    }
    return [msgspec.json.encode(document)]


def _regions() -> bytes:
    from pypto_build.diagnose.hazards.record import REGION

    rows = np.zeros(6, dtype=REGION)
    rows["base"] = (4096, 8192, 4096, 12288, 8192, 16384)
    rows["length"], rows["rows"], rows["task"], rows["kind"], rows["count"] = 64, 1, (0, 0, 1, 1, 2, 2), (1, 2) * 3, 1
    rows["stride"], rows["member"] = 64, 1
    return rows.tobytes()


def _accesses(path: Path) -> None:
    from pypto_build.diagnose.hazards.analysis import analyse
    from pypto_build.diagnose.hazards.record import read_record

    if path.suffix == ".json":
        path.with_suffix(".bin").write_bytes(_regions())
    else:
        path.with_suffix(".json").write_bytes(_accesses_seeds()[0])
    analyse(load_artifact(DAG), read_record(path.parent), [])


def _executed_seeds() -> list[bytes]:
    site = {"kernel": 0, "instruction": "TRECIP", "file": "kernels/aiv/kernel_add.so", "offset": "16"}
    tiles = [0, 1, 4, 8, 64, 8, 64, 0, 0, 2, 4, 8, 64, 8, 64, 2048]
    return [msgspec.json.encode({"sites": [site], "executed": [[0, tiles]]})]


def _executed(path: Path) -> None:
    from pypto_build.device.run import RunRules
    from pypto_build.replay.run_rules import read_executed

    record = read_executed(path)
    source = DAG / "kernels" / "aiv" / "kernel_add.cpp"
    list(RunRules({0: source}, DAG, "a2a3").broken(record.sites, record.executed))


_INSTRUCTION_TILE = [0, 0, 1, 0, 1, 1, 1, 4, 2, 8, 2, 8, 0, 0, 2, 8]


def _instructions_seeds() -> list[bytes]:
    at = {"file": "kernels/aiv/kernel_add.so", "offset": 16}
    view = [1, 0, 4, [1, 1, 1, 2, 8], [16, 16, 16, 8, 1], 2, 8]
    rows = [
        {"kind": 100, "name": "TLOAD", "pipe": 4, **at, "tiles": [_INSTRUCTION_TILE], "views": [view]},
        {"kind": 0, "pipe": 4, "to": 1, "id": 0},
        {"kind": 1, "pipe": 4, "to": 1, "id": 0},
        {"kind": 100, "name": "TADD", "pipe": 1, **at, "tiles": [_INSTRUCTION_TILE, _INSTRUCTION_TILE]},
        {"kind": 101, "name": "consumer", "to": 2, "id": 1},
    ]
    document = {"schema": 1, "complete": True, "calls": 2, "bases": 2, "rows": rows, "streams": [4]}
    return [msgspec.json.encode(document)]


def _instruction_calls() -> bytes:
    calls = np.array([[0, 0, 1, 0, 0, 1], [1, 0, 1, 0, 0, 1]], np.uint32)
    return np.array([4096, 8192], np.uint64).tobytes() + calls.tobytes() + np.arange(4, dtype=np.uint32).tobytes()


def _instructions(path: Path) -> None:
    from pypto_build.diagnose.speed.model import predict
    from pypto_build.diagnose.speed.rates import rates_of
    from pypto_build.diagnose.speed.record import read_recording

    if path.suffix == ".json":
        path.with_suffix(".bin").write_bytes(_instruction_calls())
    else:
        path.with_suffix(".json").write_bytes(_instructions_seeds()[0])
    predict(read_recording(path.parent), rates_of("910B2"))


def _rates(path: Path) -> None:
    from pypto_build.diagnose.speed.rates import rates_of, read_rates

    rates_of("910B2", read_rates(path))


_RATES = b'[[rate]]\nname = "slope.TPOW"\nvalue = 7.5\nunit = "cycles"\nchip = "a2a3"\nevidence = "D"\nsource = "x"\n'


def _trace_seeds() -> list[bytes]:
    tile = [0, 2, 0, 1, 0, 1, 4, 2, 8, 0, 0, 2, 8, 1, 1, 64, 0, 0, 64]
    code = {"file": "kernels/aiv/kernel_add.so", "offset": "16"}
    load = {"kind": "tiles", "name": "TLOAD", **code, "operands": [tile]}
    view = {
        "kind": "global", "name": "TLOAD", **code, "base": 4096, "access": 1, "layout": 0, "element": 4,
        "shape": [1, 1, 1, 2, 8], "stride": [16, 16, 16, 8, 1], "rows": 2, "cols": 8,
    }  # fmt: skip
    boxed = [2, 1, 1, 2, 1, 0, 2, 16, 32, 0, 0, 16, 32, 16, 16, 0, 0, 64, 1024]
    moved = {"kind": "tiles", "name": "TMATMUL", **code, "operands": [boxed, tile]}
    flag = {"kind": "order", "name": "set_flag", **code, "from": 4, "to": 1, "id": 2}
    variable = {"kind": "variable", "name": "v3", "holds": "signed", "bits": "18446744073709551615"}
    named = {"kind": "variable", "name": "v7", "holds": "tile", "operands": [[*tile[:16], 0, 0, 0]]}
    store = {**view, "name": "TSTORE", "access": 2, "at": 0, "runs": [[4096, 2, 32, 32]]}
    lines = [msgspec.json.encode(event) for event in (load, view, moved, flag, variable, named, store)]
    return [b"[\n" + b"\n,".join(lines) + b"]\n"]


def _trace(path: Path) -> None:
    from pypto_build.diagnose.why.forward import contributions, last_store, last_write
    from pypto_build.diagnose.why.trace import read_trace

    path.with_suffix(".bin").write_bytes(bytes(64 + 1024))
    instructions = read_trace(path.with_suffix("")).instructions
    last_store(instructions, len(instructions), 4096)
    for one in instructions:
        for tile in one.written:
            list(contributions(one, tile, 0, 0))
            last_write(instructions, len(instructions), tile.space, tile.addresses[0])


def _chains_seeds() -> list[bytes]:
    from pypto_build.diagnose.findings import state_of

    link = {"where": "'f' [0]", "value": 1.5, "expected": 2.5, "instruction": "TADD", "differs": True, "parts": True}
    summary = {"count": 4, "min": 0.0, "max": 1.0, "differ": 0, "largest": [[[0, 1], 1.0]]}
    top = {**link, "combined": [summary], "of": [{"where": "'a' [0]", "value": None}]}
    return [msgspec.json.encode({"state": state_of(DAG), "chains": [{"output": "f", "index": [0, 1], "link": top}]})]


def _chains(path: Path) -> None:
    from pypto_build.diagnose.why.kept import lines_of, read_kept

    for one in read_kept(path.parents[1], DAG):
        list(lines_of(one.link))


def _pack_seeds() -> list[bytes]:
    from pypto_build.diagnose.pack.__main__ import digested, tree_of, write_pack
    from pypto_build.diagnose.pack.opened import Pack

    artifact = load_artifact(DAG)
    tree = tree_of(artifact, snapshot(artifact))
    with _directory() as directory:
        pack = Pack(artifact.name, "a2a3sim", {"RTOL": "0.1"}, digested(tree), "pass")
        write_pack(directory / "x.tar.zst", pack, tree)
        return [(directory / "x.tar.zst").read_bytes()]


def _pack(path: Path) -> None:
    from pypto_build.diagnose.pack.opened import edited, read_pack, unpack

    read_pack(path)
    directory = path.parent / "unpacked"
    try:
        edited(unpack(path, directory), directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _passes_seeds() -> Sequence[bytes]:
    from tests.diagnose.corpus.passes import CLEAN

    return [*(text.encode() for text in CLEAN.values()), _DUMP]


_DUMP = b"""# kernel aiv, softmax.py:3
def softmax(x: In[Tensor[[16, 128], FP32]], out: Out[Tensor[[16, 128], FP32]], n: In[INT64]):
    t0: Tile[[16, 128], FP32, valid[16, n], vec] @ 0 = pl.load(x, [0, 0], [16, 128])
    for i, (a, b,) in pl.range(0, 16, 1, init_values=(t0, t0,)):
        t1: Tile[[16, 128], FP32, vec] @ 8192 = pl.add(a, b)
        c: Tile[[16, 128], FP32, vec] @ 8192
        d: Tile[[16, 128], FP32, vec] @ 0
        c, d = pl.yield_(t1, t0)
    if n:
        pl.store(c, [0, 0], out)
    else:
        pass
    for _, (e,) in pl.while_(init_values=(d,)):
        pl.cond(n)
        kernel(x, predicate=pl.gt(x[0], 3), allow_early_resolve=True)
        f: Tile[[16, 128], FP32, vec] @ 0 = pl.yield_(e)
"""


def _passes(path: Path) -> None:
    from pypto_build.diagnose.passes.__main__ import changes, check_dumps, read_dumps
    from pypto_build.diagnose.passes.values import dump_files

    dumps = read_dumps(dump_files(path.parents[1]))
    check_dumps(dumps, "a2a3")
    if len(dumps) > 1:
        changes(dumps[0], dumps[1])


_PASS_LOG = b"""/x/passes_dump/01_after_ConvertToSSA.py:12:3: warning: unused
../02.py: error: bad
[perf_hint PH001] tile too small at /x/a.py:12:4
[perf_hint PH002] nothing
Codegen failed
  [kernel_add]
ValueError: no
=====
"""
_PROFILE = b'{"stages": [{"name": "passes", "children": [{"name": "a", "seconds": 0.5}, {"name": "a", "seconds": 1}]}]}'

_SPAN = b'{"name": "run", "cat": "work", "ph": "X", "ts": 1.5, "dur": 2, "pid": 3, "tid": 3, "tdur": 1}\n'


def _spans(path: Path) -> None:
    from pypto_build.rules.machinery.profile import read_spans

    list(read_spans(path))


def _pass_reports(path: Path) -> None:
    from pypto_build.diagnose.passes.__main__ import report_findings, times

    root = path.parents[1]
    (root / "report").mkdir(exist_ok=True)
    if path.suffix == ".log" and path.is_file():
        for name in ("codegen_errors.txt", "perf_hints.log"):
            shutil.copyfile(path, root / "report" / name)
    list(report_findings(root))
    times(root)


def _report_buffer() -> list[bytes]:
    made = bytearray(REPORT_BYTES)
    struct.pack_into("<QIIIIQQQII", made, 0, 0x54524F5045525050, 5, 2, 1, 0, 5, 3, 2, 0, 0)
    slot = struct.Struct("<QiiqiI64s")
    for index in range(2):
        slot.pack_into(made, 56 + index * slot.size, index + 3, index, 0, 100, 1, 0, b"kernel_add")
    crash = struct.Struct("<IiiiQQiI64sIIQQ96s2048s256sQ")
    at = 56 + 256 * slot.size
    crash.pack_into(
        made, at, 2, 11, 0, 1, 0xDEAD, 3, 0, 2, b"kernel_mul", 4, 1, 8, 128, b"near a", b"a\nb", b"what", 100
    )
    frame = struct.Struct("<QQ176s64s")
    for index in range(2):
        frame.pack_into(made, at + crash.size + index * frame.size, 0, 0x40, b"/nowhere/k.so", b"kernel_entry")
    fault = struct.Struct("<IiQ16s64s3072s512s")
    fault.pack_into(made, at + crash.size + 48 * frame.size, 2, 0, 3, b"hang", b"kernel_add", b"message", b"hint")
    return [bytes(made)]


def _report(path: Path) -> None:
    from pypto_build.runtime.report import read_report

    report = read_report(path.read_bytes())
    if report is not None:
        report.occupancy()
        if report.crash:
            report.crash.summary()
            [str(frame) for frame in report.crash.frames]


def _flight_buffer() -> list[bytes]:
    made = bytearray(sizeof(FlightHead) + 2 * sizeof(FlightTrack))
    struct.pack_into("<QII48x64s", made, 0, 0x544847494C465050, 1, 2, b"kernel_add")
    for track in range(2):
        at = 64 + 512 * 64 + track * (64 + 1024 * 32)
        struct.pack_into("<Q", made, at, 17)
        for what in range(1, 18):
            struct.pack_into("<qHHBBHIiQ", made, at + 64 + (what - 1) * 32, what, what, 1, 1, 1, 2, 3, 4, 5)
    return [bytes(made)]


def _flight(path: Path) -> None:
    from pypto_build.replay.flight import collect, read_flight

    collect([read_flight(path.read_bytes())]).lines(8)


_KEPT = b"""{"schema": 1, "ranks": 2, "line": "k.cpp:3", "fault": {"kind": 67, "fields": {}},
"events": [{"ms": -1.5, "rank": 1, "core": 0, "what": "submits", "text": "submits task 0", "task": 0}]}"""


def _kept(path: Path) -> None:
    from pypto_build.replay.flight import read_kept

    read_kept(path).lines(8)


# -- toolchain --------------------------------------------------------------------------------------------------------


@cache
def _elf_seeds() -> list[bytes]:
    """A kernel's object and library; made once."""
    import subprocess

    with _directory() as directory:
        source = directory / "k.cpp"
        source.write_text(
            'extern "C" void kernel_entry(long* a) { a[0] += a[1]; }\nint other(int x) { return x * 3; }\n'
        )
        made = []
        for name, flags in (("k.o", ["-c"]), ("k.so", ["-shared", "-nostdlib"])):
            words = ["g++", "-O1", "-fPIC", *flags, str(source), "-o", str(directory / name)]
            subprocess.run(words, check=True, capture_output=True)
            made.append((directory / name).read_bytes())
    return made


def _own_text(path: Path) -> None:
    text = own_text.own_text(f'# 1 "{path}" 1\n{_decoded(path)}', INCLUDE_DIR)
    if text is not None:
        own_text.leaves_templates_alone(text)
        own_text.declares_names_of(INCLUDE_DIR, text)


def _decoded(path: Path) -> str:
    """Return the file's text as output of a compiler; "" if the file cannot be read."""
    try:
        return read_bytes(path).decode(errors="replace")
    except OSError:
        return ""


def _elf(path: Path) -> None:
    elf = read_elf(path)
    _ = elf.defined, elf.symbols
    extract_text(elf)


def _home(path: Path) -> None:
    from pypto_build.toolchain.pins import pinned_isa

    pinned_isa(path.parent)


# -- others -----------------------------------------------------------------------------------------------------------


def _bisect(path: Path) -> None:
    from pypto_build.interop.steps import Runner

    with contextlib.redirect_stdout(io.StringIO()):
        runner = Runner(path, "q", 1, [])
    for step in runner.record.steps:
        _ = step.candidate, step.outcome, step.signatures


_BISECT = (
    b'{"question": "q", "bad_signature": "b", "steps": [{"candidate": "c", "outcome": "good", "signatures": ["p"]}]}'
)


def _stamp(path: Path) -> None:
    from pypto_build.compiler.golden import _Stamp

    (path.parents[1] / "golden.py").touch()
    stamp = _Stamp(path.parents[1])
    stamp.is_current()
    stamp.user_inputs()


_STAMP = b'{"schema": 2, "golden": "0", "files": {"data/in/a.pt": "1"}, "made": {"data/in/a.pt": "2"}}'


def _events(path: Path) -> None:
    from pypto_build.diagnose.diverge.probe import read_events

    read_events(path, [])


def _event_seeds() -> list[bytes]:
    from pypto_build.diagnose.diverge.probe import _HEADER

    return [
        _HEADER.pack(b"TADD", 12, 1, 256, 4, 2, 3) + bytes(24) + _HEADER.pack(b"TSTORE", 13, -1, 0, 4, 1, 1) + bytes(4)
    ]


def _lint(path: Path) -> None:
    from pypto_build.diagnose.lint.__main__ import lint

    lint(path.parents[1], "a2a3sim")


def _lint_kernel(path: Path) -> None:
    from pypto_build.diagnose.lint.__main__ import lint

    lint(path.parents[2], "a2a3sim")


def _sites(path: Path) -> None:
    from pypto_build.diagnose.recorded.names import submissions

    submissions(path)


_LISTED = (
    b'[{"directory": "/", "output": "k.o", "arguments": ["g++", "-O1", "-o", "k.o"], "file": "k.cpp"}, {"file": 3}]'
)


def _listing(path: Path) -> None:
    from pypto_build.diagnose.recorded.evidence import Evidence
    from pypto_build.diagnose.report.surroundings import environment
    from pypto_build.replay.lines import _command

    _command(path.parent / "k.o")
    (path.parent / "platform" / "a").mkdir(parents=True, exist_ok=True)
    environment(Evidence(path.parent, path.parent / "platform" / "a"), None)


def _context(path: Path) -> None:
    from pypto_build.diagnose.report.surroundings import _upstream_revisions

    _upstream_revisions(path.parents[1])


_ORCHESTRATIONS = _examples("_jit_*/orchestration/*.cpp")


def _conformance_seeds() -> list[bytes]:
    from pypto_build.diagnose.conformance.asked import groups
    from pypto_build.diagnose.conformance.results import RecordedOutput, Results, digest_of_inputs, write_results

    questions = [question for group in groups() for question in group.questions]
    outputs = {each.name: RecordedOutput(each.dtype, each.answers[0].values.tobytes().hex()) for each in questions[3:6]}
    return [write_results(Results(digest_of_inputs(), "a2a3", outputs))]


def _batch(path: Path) -> None:
    import contextlib

    from pypto_build import cli

    with contextlib.redirect_stderr(None):
        cli.main(["replay", f"--batch-manifest={path}"], lambda words, environment: 0)


def _conformance(path: Path) -> None:
    from pypto_build.diagnose.conformance.results import judge, lines_of, read_results

    results = read_results(path)
    print(*lines_of(results, judge(results, path)))


READERS: tuple[Reader, ...] = (
    Reader(
        "manifest", lambda: [*_examples("_jit_vector_dag*/kernel_config.py")(), _NESTED, _NESTED], _manifest,
        mutate.damage_text, "kernel_config.py", DAG,
    ),
    Reader("batch", lambda: [b'[{"work_dir": "a", "platform": "a2a3sim"}]'], _batch, mutate.damage_text, "batch.json"),
    Reader("pt", _pt_seeds, _pt, mutate.damage_pt, "x.pt"),
    Reader("binding", _pt_seeds, _bound, mutate.damage_pt, "data/in/alpha.pt", DAG, fifo=False),
    Reader("history", _history_seeds, _history, mutate.damage_bytes, "h.sqlite"),
    Reader("meta", _examples("_jit_*/compiled_meta.json"), lambda path: read_meta(path), mutate.damage_json, "compiled_meta.json"),
    Reader("interface", _interface_seeds, _read_interface, mutate.damage_json, "interface.json", DAG),
    Reader("compiled_files", _compiled_seeds, read_compiled_files, mutate.damage_json, "compiled_files.json"),
    Reader("orchestration", _ORCHESTRATIONS, _orchestration, mutate.damage_text, "orchestration/vector_dag.cpp", DAG),
    Reader("kernel", _examples("_jit_*/kernels/*/*.cpp"), _kernel, mutate.damage_text, "k.cpp", errors=(ArtifactError, PtoError)),
    Reader("lint", _ORCHESTRATIONS, _lint, mutate.damage_text, "orchestration/vector_dag.cpp", DAG),
    Reader("lint_kernel", _examples("_jit_vector_dag*/kernels/*/*.cpp"), _lint_kernel, mutate.damage_text, "kernels/aiv/kernel_add.cpp", DAG),
    Reader("sites", _ORCHESTRATIONS, _sites, mutate.damage_text, "orchestration.cpp"),
    Reader("pto", _examples("_jit_*/ptoas/*.pto"), _pto, mutate.damage_text, "unit.pto", errors=(PtoError,)),
    Reader("pto_torch", _examples("_jit_*/ptoas/*.pto"), _pto_torch, mutate.damage_text, "unit.pto", errors=_pto_errors()),
    Reader("units", lambda: [_UNITS], _units, mutate.damage_json, ".units.json", named=False),
    Reader("first_sight", _sights, _first_sight, _damage_sight, FIRST_SIGHT, DAG, named=False),
    Reader("as_built", lambda: [_UNITS], _as_built, mutate.damage_json, ".units.json", named=False),
    Reader("tried", lambda: [b"0" * 32 + b" mismatch f\n" + b"1" * 32 + b" pass\n"], _tried, mutate.damage_text, "tried.x.log", named=False),
    Reader("results", _result_seeds, _results, mutate.damage_fields, RECORD),
    Reader("results_added", _result_seeds, _added, mutate.damage_fields, MORE),
    Reader("verdict", _verdict_seeds, _verdict, mutate.damage_json, "verdict.json"),
    Reader("golden", lambda: [_GOLDEN], _golden, mutate.damage_text, "golden.py"),
    Reader("args_dump", _dump_seeds, _dump, mutate.damage_json, "args_dump.json"),
    Reader("graph", _graph_seeds, _records(True), mutate.damage_json, "deps.json"),
    Reader("timeline", _timeline_seeds, _records(False), mutate.damage_json, "chip_swimlane_records.json"),
    Reader("distributed_meta", ranks.meta_seeds, ranks.read_meta, mutate.damage_json, "distributed_meta.json", ranks.DISTRIBUTED),
    Reader("driver", ranks.driver_seeds, ranks.read_driver, mutate.damage_text, "orchestration/host_orch.py", ranks.DISTRIBUTED),
    Reader("ranks", ranks.ranks_seeds, ranks.read_ranks, mutate.damage_json, "dfx_outputs/ranks.json", fifo=False),
    Reader("messages", ranks.messages_seeds, ranks.read_messages, mutate.damage_json, "dfx_outputs/rank0/d1/messages.json", fifo=False),
    Reader("timing", _timing_seeds, _timing, mutate.damage_json, "timing.json"),
    Reader("log", _log_seeds, _log, mutate.damage_text, "device.log"),
    Reader("name_map", lambda: [b'{"level": 2, "callable_id_to_name": {"0": "add", "1": "mul"}}'], _name_map, mutate.damage_json, "name_map_x.json"),
    Reader("findings", _findings_seeds, _findings, mutate.damage_json, "lint.json"),
    Reader("accesses", _accesses_seeds, _accesses, mutate.damage_json, "accesses.json"),
    Reader("instructions", _instructions_seeds, _instructions, mutate.damage_json, "instructions.json"),
    Reader("instruction_calls", lambda: [_instruction_calls()], _instructions, mutate.damage_fields, "instructions.bin", named=False),
    Reader("rates", lambda: [_RATES], _rates, mutate.damage_text, "rates.toml"),
    Reader("chains", _chains_seeds, _chains, mutate.damage_json, "why/chains.json"),
    Reader("trace", _trace_seeds, _trace, mutate.damage_json, "trace.0.1.json"),
    Reader("executed", _executed_seeds, _executed, mutate.damage_json, "executed.json",
           modules=("pypto_build.replay.run_rules",)),
    Reader("regions", lambda: [_regions()], _accesses, mutate.damage_fields, "accesses.bin", named=False),
    Reader("pack", _pack_seeds, _pack, mutate.damage_pack, "x.tar.zst"),
    Reader("passes", _passes_seeds, _passes, mutate.damage_text, "passes_dump/01_after_X.py"),
    Reader("pass_logs", lambda: [_PASS_LOG], _pass_reports, mutate.damage_text, "passes_dump/x.log"),
    Reader("pass_times", lambda: [_PROFILE], _pass_reports, mutate.damage_json, "report/pipeline_profile.json"),
    Reader("spans", lambda: [_SPAN + _SPAN], _spans, mutate.damage_text, ".trace.1", errors=()),
    Reader("flight", _flight_buffer, _flight, mutate.damage_fields, "flight", named=False, fifo=False),
    Reader("flight_kept", lambda: [_KEPT], _kept, mutate.damage_json, "dfx_outputs/flight.json"),
    Reader("crash_report", _report_buffer, _report, mutate.damage_fields, "report", errors=(ValueError,), named=False, fifo=False),
    Reader("own_text", _examples("_jit_*/kernels/ai[cv]/*.cpp"), _own_text, mutate.damage_text, "k.cpp", errors=()),
    Reader("elf", _elf_seeds, _elf, mutate.damage_fields, "k.o", errors=(ElfError, OSError), named=False),
    Reader("pins", lambda: [PINS_FILE.read_bytes()], lambda path: read_pins(path), mutate.damage_text, "pins.toml", errors=(ToolchainError,)),
    Reader("isa_pin", lambda: [b"0123456789abcdef\n"], _home, mutate.damage_bytes, "pto_isa.pin", errors=(ToolchainError,)),
    Reader("bisect", lambda: [_BISECT], _bisect, mutate.damage_json, "bisect.json"),
    Reader("golden_stamp", lambda: [_STAMP], _stamp, mutate.damage_json, "data/golden.json"),
    Reader("probe_events", _event_seeds, _events, mutate.damage_fields, "events.bin", modules=("pypto_build.diagnose.diverge.probe",)),
    Reader("compile_commands", lambda: [_LISTED], _listing, mutate.damage_json, "compile_commands.json"),
    Reader("conformance", _conformance_seeds, _conformance, mutate.damage_json, "results.json"),
    Reader("binary_context", lambda: [b'{"runtime_revision": "a", "pto_isa_revision": "b"}'], _context, mutate.damage_json, "cache/binary_context.json"),
)  # fmt: skip


def reader(name: str) -> Reader:
    """The reader of that name."""
    return next(row for row in READERS if row.name == name)


def check_error(row: Reader, error: BaseException, path: Path) -> str:
    """Return the fault of a reader's own error; "" if it is one line that says enough."""
    text = str(error)
    if "\n" in text or not text.strip():
        return "is not one line"
    if len(text) > 4096:
        return f"has {len(text)} characters"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "cannot be printed"
    if row.named and path.name not in text and not any(part in text for part in (str(path.parent),)):
        return "does not name the file"
    return ""


def silence() -> None:
    """Sends what readers print to nowhere, in a child process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
