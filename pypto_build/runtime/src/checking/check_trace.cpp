// Copies an instruction's inputs before it runs, and its outputs when the next one begins.
#include "checking/check_trace.h"
#include "checking/check_shadow.h"
#include "checking/view_runs.h"

#include <cstring>
#include <dlfcn.h>

namespace pypto::runtime {

namespace {

// Bytes of each file that are held in memory before they are written.
constexpr size_t kHeld = size_t{4} << 20;

} // namespace

void Trace::begin(const std::string &stem) {
    events_ = {};
    events_.open('[');
    bytes_.clear();
    written_ = 0;
    pending_.clear();
    instruction_ = nullptr;
    events_file_.open(stem + ".json");
    bytes_file_.open(stem + ".bin");
}

void Trace::flush() {
    for (const Pending &write : pending_)
        std::memcpy(&bytes_[write.at], write.from, write.size);
    pending_.clear();
    spill(kHeld);
}

// Writes to the files what is more than `most` bytes. Nothing is pending.
void Trace::spill(size_t most) {
    if (bytes_.size() > most) {
        bytes_file_.append(bytes_);
        written_ += bytes_.size();
        bytes_.clear();
    }
    if (events_.str().size() > most)
        events_file_.append(events_.take());
}

void Trace::open(const char *kind, const char *instruction, void *address) {
    Dl_info info{};
    dladdr(address, &info);
    events_.newline().open('{').key("kind").text(kind).key("name").text(instruction);
    events_.key("file").text(info.dli_fname ? info.dli_fname : "");
    events_.key("offset").wide(reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(info.dli_fbase) - 1);
}

namespace {

// A tile as the reader knows it: a rectangle of it, and where its bytes are in the trace.
void write_tile(JsonWriter &events, const PyptoTileAccess &a, int64_t place, int64_t start, uint64_t at, int64_t size) {
    events.row(a.space, a.access, a.fractals, a.type, a.inner_rows, a.row_major, a.element, a.rows, a.cols, a.row,
               a.col, a.height, a.width, a.fractal_rows, a.fractal_cols, place, start, at, size);
}

} // namespace

void Trace::tiles(const char *instruction, uint32_t pipe, void *address, const PyptoCoreContext &context,
                  const PyptoTileAccess *operands, uint32_t count) {
    flush();
    instruction_ = instruction;
    open("tiles", instruction, address);
    events_.key("pipe").number(pipe).key("operands").open('[');
    for (uint32_t i = 0; i < count; ++i) {
        const PyptoTileAccess &a = operands[i];
        const Runs runs = runs_of(a);
        const PyptoMemory &memory = context.memory[a.space];
        const auto *base = static_cast<const uint8_t *>(a.base);
        const int64_t place = base - memory.base, size = (runs.count - 1) * runs.stride + runs.length;
        if (runs.count == 0 || place < 0 || place + runs.start + size > static_cast<int64_t>(memory.size))
            continue;
        write_tile(events_, a, place, runs.start, written_ + bytes_.size(), size);
        if (a.access & PYPTO_WRITE)
            pending_.push_back({base + runs.start, static_cast<uint64_t>(size), bytes_.size()});
        bytes_.append(reinterpret_cast<const char *>(base + runs.start), static_cast<size_t>(size));
    }
    events_.close(']').close('}');
}

void Trace::view(const PyptoGlobalAccess &a) {
    events_.key("base").number(reinterpret_cast<uint64_t>(a.base)).key("access").number(a.access);
    events_.key("layout").number(a.layout).key("element").number(a.element);
    events_.key("shape").list(a.shape, 5).key("stride").list(a.stride, 5);
    const int64_t most = int64_t{1} << 32; // a view as large as it is has more
    events_.key("rows").number(a.rows < most ? a.rows : most).key("cols").number(a.cols < most ? a.cols : most);
}

// Records a store to global memory: runs, and the offset of their bytes in the trace.
void Trace::stored(const PyptoGlobalAccess &a) {
    events_.key("at").number(written_ + bytes_.size()).key("runs").open('[');
    emit_view(a, [&](uint64_t base, int64_t rows, int64_t stride, int64_t length) {
        events_.row(base, rows, stride, length);
        for (int64_t row = 0; row < rows; ++row) {
            const auto *from = reinterpret_cast<const uint8_t *>(base) + row * stride;
            pending_.push_back({from, static_cast<uint64_t>(length), bytes_.size()});
            bytes_.resize(bytes_.size() + static_cast<size_t>(length));
        }
    });
    events_.close(']');
}

void Trace::global(const char *instruction, uint32_t pipe, void *address, const PyptoGlobalAccess &a) {
    if (instruction != instruction_) // else it goes with the tiles that were told before
        flush();
    open("global", instruction, address);
    events_.key("pipe").number(pipe);
    view(a);
    if (a.access & PYPTO_WRITE)
        stored(a);
    events_.close('}');
}

void Trace::order(uint32_t kind, uint32_t from, uint32_t to, uint32_t id, void *address) {
    constexpr const char *names[] = {"set_flag", "wait_flag", "pipe_barrier", "signal"};
    if (kind >= sizeof(names) / sizeof(names[0]))
        return;
    open("order", names[kind], address);
    events_.key("from").number(from).key("to").number(to).key("id").number(id).close('}');
}

void Trace::variable(const char *name, const PyptoCoreContext &context, const PyptoVariable &v) {
    constexpr const char *kinds[] = {"signed", "unsigned", "real", "pointer", "tile", "view"};
    if (v.kind >= sizeof(kinds) / sizeof(kinds[0]))
        return;
    events_.newline().open('{').key("kind").text("variable").key("name").text(name).key("holds").text(kinds[v.kind]);
    if (v.tile != nullptr) {
        const int64_t place = static_cast<const uint8_t *>(v.tile->base) - context.memory[v.tile->space].base;
        events_.key("operands").open('[');
        if (place >= 0 && place < static_cast<int64_t>(context.memory[v.tile->space].size))
            write_tile(events_, *v.tile, place, 0, 0, 0);
        events_.close(']');
    } else if (v.view != nullptr) {
        view(*v.view);
    } else {
        events_.key("bits").wide(v.bits);
    }
    events_.close('}');
}

void Trace::write() {
    events_.close(']').newline();
    flush();
    spill(0);
    bytes_file_.finish();
    events_file_.finish();
}

} // namespace pypto::runtime
