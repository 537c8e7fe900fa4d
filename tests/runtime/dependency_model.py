"""Random orchestrations, and which of their tasks depend on which: simpler's rules written down once more.

A program is a list of numbers that INTERPRETER, an orchestration, reads and carries out. It has tasks and dummy tasks
with views of two matrices and of tensors allocated on the way, explicit dependencies, allocations, scopes of both kinds.
`edges` returns the expected deps.json. The interpreter is in the form of 2026-08, so simpler runs it as it is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

X_SHAPE, Y_SHAPE, FRESH_SHAPE = (16, 16), (8, 32), (8, 8)
END, TASK, SCOPE, DUMMY, ALLOCATE = range(5)
INPUT, OUTPUT_EXISTING, INOUT, NO_DEP = range(4)
WHOLE, PART, TRANSPOSED, UNTRACKED, OTHER_ROWS, THIRD_COLUMNS, FLAT, PAIRS, PERMUTED = range(9)

INTERPRETER = """
#include <stddef.h>
#include <stdint.h>

#include "pto_orchestration_api.h"

static const int32_t *at;
static const ChipTensor *tensors[256];
static PTO2TaskId tasks[1024];
static uint32_t tensor_count, task_count;

static int32_t next() { return *at++; }

static const ChipTensor *argument() {
    const ChipTensor &whole = *tensors[next()];
    const int32_t kind = next(), row = next(), column = next(), rows = next(), columns = next();
    const uint32_t flat[1] = {(uint32_t)whole.numel()}, order[2] = {1, 0};
    const uint32_t pairs[3] = {whole.shapes[0] / 2, 2, whole.shapes[1]};
    switch (kind) {
    case 0:
        return &whole;
    case 4:
        return new ChipTensor(whole.slice(0, (uint32_t)row, (uint32_t)(row + rows), 2));
    case 5:
        return new ChipTensor(whole.slice(1, (uint32_t)column, (uint32_t)(column + columns), 3));
    case 6:
        return new ChipTensor(whole.reshape(flat, 1));
    case 7:
        return new ChipTensor(whole.reshape(pairs, 3));
    case 8:
        return new ChipTensor(whole.permute(order));
    }
    const uint32_t shape[2] = {(uint32_t)rows, (uint32_t)columns}, offset[2] = {(uint32_t)row, (uint32_t)column};
    const ChipTensor *part = new ChipTensor(whole.view(shape, offset, kind == 3));
    return kind == 2 ? new ChipTensor(part->transpose(0, 1)) : part;
}

static void submit(bool dummy) {
    CoreTaskArgs args;
    const uint32_t shape[2] = {8, 8};
    TensorCreateInfo info(shape, 2, DataType::FLOAT32);
    for (int32_t count = next(); count > 0; --count) {
        const int32_t tag = next();
        const ChipTensor &tensor = *argument();
        if (tag == 0)
            args.add_input(tensor);
        else if (tag == 1)
            args.add_output(tensor);
        else if (tag == 2)
            args.add_inout(tensor);
        else
            args.add_no_dep(tensor);
    }
    const int32_t fresh = next();
    for (int32_t i = 0; i < fresh; ++i)
        args.add_output(info);
    PTO2TaskId ids[16];
    const uint32_t count = (uint32_t)next();
    for (uint32_t i = 0; i < count; ++i)
        ids[i] = tasks[next()];
    args.set_dependencies(ids, count);
    TaskOutputTensors *outs = new TaskOutputTensors(dummy ? rt_submit_dummy_task(args) : rt_submit_aiv_task(0, args));
    tasks[task_count++] = outs->task_id();
    for (int32_t i = 0; i < fresh; ++i)
        tensors[tensor_count++] = &outs->get_ref((uint32_t)i);
}

static bool step() {
    const int32_t what = next();
    if (what == 1 || what == 3) {
        submit(what == 3);
    } else if (what == 2) {
        const uint32_t before = tensor_count;
        rt_scope_begin(next() ? PTO2ScopeMode::MANUAL : PTO2ScopeMode::AUTO);
        while (step()) {
        }
        rt_scope_end();
        tensor_count = before;
    } else if (what == 4) {
        const uint32_t shape[2] = {8, 8};
        TensorCreateInfo info(shape, 2, DataType::FLOAT32, next() != 0);
        TaskOutputTensors *outs = new TaskOutputTensors(alloc_tensors(info));
        tasks[task_count++] = outs->task_id();
        tensors[tensor_count++] = &outs->get_ref(0);
    }
    return what != 0;
}

extern "C" {
__attribute__((visibility("default"))) PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs &) {
    return PTO2OrchestrationConfig{.expected_arg_count = 3};
}
__attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &orch_args) {
    const ChipTensor &x = orch_args.tensor(1).ref();
    const ChipTensor &y = orch_args.tensor(2).ref();
    at = orch_args.tensor(0).ref().data_as<int32_t>();
    tensors[0] = &x;
    tensors[1] = &y;
    tensor_count = 2;
    task_count = 0;
    PTO2_SCOPE() {
        while (step()) {
        }
    }
}
}
"""


def program(seed: int, calls: int = 40) -> list[int]:
    """A random program."""
    chance = random.Random(seed)
    words: list[int] = []
    tasks = 0

    def argument(tensors: int) -> list[int]:
        tensor = chance.randrange(tensors) if chance.random() < 0.7 else chance.randrange(2)
        height, width = (X_SHAPE, Y_SHAPE)[tensor] if tensor < 2 else FRESH_SHAPE
        rows = height if chance.random() < 0.4 else chance.randint(1, height)
        columns = width if chance.random() < 0.4 else chance.randint(1, width)
        row, column = chance.randint(0, height - rows), chance.randint(0, width - columns)
        tag = chance.choice([INPUT, INPUT, OUTPUT_EXISTING, OUTPUT_EXISTING, INOUT, INOUT, NO_DEP])
        kind = chance.choice([WHOLE, PART, PART, PART, *range(TRANSPOSED, PERMUTED + 1)])
        return [tag, tensor, kind, row, column, rows, columns]

    def block(depth: int, manual: bool, tensors: int, count: int) -> None:
        nonlocal tasks
        for _ in range(count):
            dice = chance.random()
            if dice < 0.12 and depth < 4:
                inner = manual or chance.random() < 0.3
                words.extend([SCOPE, int(inner)])
                block(depth + 1, inner, tensors, chance.randint(1, 6))
            elif dice < 0.2:
                words.extend([ALLOCATE, int(chance.random() < 0.3)])
                tasks += 1
                tensors += 1
            else:
                arguments = [argument(tensors) for _ in range(chance.randint(0, 4))]
                fresh = chance.choice([0, 0, 0, 1, 2])
                named = [chance.randrange(tasks) for _ in range(chance.choice([0, 0, 0, 1, 2]))] if tasks else []
                words.extend(
                    [DUMMY if dice < 0.28 else TASK, len(arguments), *(word for each in arguments for word in each)]
                )
                words.extend([fresh, len(named), *named])
                tasks += 1
                tensors += fresh
        words.append(END)

    block(0, False, 2, calls)
    return words


@dataclass(frozen=True)
class Region:
    """Part of a buffer: where it starts, and its sizes and strides in elements."""

    buffer: int
    creator: int | None
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    tracked: bool

    def last(self) -> int:
        """One past the last element touched."""
        return self.start + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)) + 1

    def grid(self) -> list[range] | None:
        """The box it is in the row-major grid that its strides span; None where they span none."""
        box, rest, outer = [], self.start, 0
        for size, stride in zip(self.shape, self.strides, strict=True):
            first, rest = divmod(rest, stride)
            if outer and (outer % stride or first + size > outer // stride):
                return None
            box.append(range(first, first + size))
            outer = stride
        return box if outer == 1 else None

    def part(self, words: tuple[int, int, int, int, int]) -> Region:
        """Return the interpreter's view of the region: every view decides for itself whether it is tracked."""
        kind, row, column, rows, columns = words
        whole, (height, width), (down, right) = self, self.shape, self.strides
        if kind == WHOLE:
            return whole
        cut = row * down + column * right
        views: dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
            PART: (cut, (rows, columns), (down, right)),
            UNTRACKED: (cut, (rows, columns), (down, right)),
            TRANSPOSED: (cut, (columns, rows), (right, down)),
            OTHER_ROWS: (row * down, ((rows + 1) // 2, width), (2 * down, right)),
            THIRD_COLUMNS: (column * right, (height, (columns + 2) // 3), (down, 3 * right)),
            FLAT: (0, (height * width,), (1,)),
            PAIRS: (0, (height // 2, 2, width), (2 * width, width, 1)),
            PERMUTED: (0, (width, height), (right, down)),
        }
        return Region(self.buffer, self.creator, *views[kind], kind != UNTRACKED)


def overlap(newer: Region, older: Region) -> str:
    """ "", "covered" (the newer one holds the older one) or "other"; the last also where nobody can tell."""
    if newer.last() <= older.start or older.last() <= newer.start:
        return ""
    a, b = newer.grid(), older.grid()
    if newer.strides != older.strides or a is None or b is None:
        return "other"
    if any(x.start >= y.stop or y.start >= x.stop for x, y in zip(a, b, strict=True)):
        return ""
    return "covered" if all(x.start <= y.start and x.stop >= y.stop for x, y in zip(a, b, strict=True)) else "other"


@dataclass
class Model:
    """Carries out a program on paper."""

    words: list[int]
    edges: set[tuple[int, int, int, str, str]] = field(default_factory=set)
    ids: list[int] = field(default_factory=list)
    at: int = 0

    def __post_init__(self) -> None:
        self.tensors = [Region(-1, None, 0, X_SHAPE, (16, 1), True), Region(-2, None, 0, Y_SHAPE, (32, 1), True)]
        self.writers: list[tuple[int, Region]] = []
        self.numbers = [0] * 4
        self.block(1, False)

    def next(self) -> int:
        self.at += 1
        return self.words[self.at - 1]

    def new_id(self, depth: int) -> int:
        ring = min(depth, 3)
        self.numbers[ring] += 1
        self.ids.append(ring << 32 | self.numbers[ring] - 1)
        return self.ids[-1]

    def block(self, depth: int, manual: bool) -> None:
        while (what := self.next()) != END:
            if what == SCOPE:
                before, inner = len(self.tensors), bool(self.next())
                self.block(depth + 1, inner)
                del self.tensors[before:]
            elif what == ALLOCATE:
                untracked, task = bool(self.next()), self.new_id(depth)
                self.tensors.append(Region(task << 8, task, 0, FRESH_SHAPE, (8, 1), not untracked))
            else:
                self.submit(depth, manual)

    def argument(self) -> tuple[int, Region]:
        tag, tensor, kind, row, column, rows, columns = (self.next() for _ in range(7))
        return tag, self.tensors[tensor].part((kind, row, column, rows, columns))

    def submit(self, depth: int, manual: bool) -> None:
        arguments = [self.argument() for _ in range(self.next())]
        fresh = self.next()
        named = [self.ids[self.next()] for _ in range(self.next())]
        task = self.new_id(depth)
        self.edges |= {(producer, task, -1, "explicit", "") for producer in named}
        linked = set(named)
        for slot, (tag, region) in enumerate([] if manual else arguments):
            if region.creator is not None and region.creator not in linked:
                self.edges.add((region.creator, task, slot, "creator", ""))
                linked.add(region.creator)
            if tag in (INPUT, INOUT) and region.tracked:
                self.read(slot, region, task, tag == INOUT, linked)
        for tag, region in [] if manual else arguments:
            if tag in (INOUT, OUTPUT_EXISTING) and region.tracked:
                self.writers.append((task, region))
        for number in range(fresh):
            self.tensors.append(Region((task << 8) + 1 + number, task, 0, FRESH_SHAPE, (8, 1), True))

    def read(self, slot: int, region: Region, task: int, hides: bool, linked: set[int]) -> None:
        kept = []
        for writer, written in self.writers:
            how = overlap(region, written) if written.buffer == region.buffer else ""
            if how:
                self.edges.add((writer, task, slot, "tensormap", how))
                linked.add(writer)
            if not (hides and how == "covered"):
                kept.append((writer, written))
        self.writers = kept


def edges(words: list[int]) -> set[tuple[int, int, int, str, str]]:
    """Producer, consumer, argument, source and overlap of every dependency of a program."""
    return Model(words).edges
