// What instructions read is copied before, what they write when the next one begins.
#include "checking/check_trace.h"
#include "checking/check_shadow.h"

#include <cstring>
#include <dlfcn.h>

namespace pypto::runtime {

void Trace::begin() {
    events_ = {};
    events_.open('[');
    bytes_.clear();
    pending_.clear();
}

void Trace::flush() {
    for (const Pending &write : pending_)
        std::memcpy(&bytes_[write.at], write.from, write.size);
    pending_.clear();
}

void Trace::open(const char *kind, const char *instruction, void *address) {
    Dl_info info{};
    dladdr(address, &info);
    events_.newline().open('{').key("kind").text(kind).key("name").text(instruction);
    events_.key("file").text(info.dli_fname ? info.dli_fname : "");
    events_.key("offset").wide(reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(info.dli_fbase) - 1);
}

void Trace::tiles(const char *instruction, void *address, const PyptoCoreContext &context,
                  const PyptoTileAccess *operands, uint32_t count) {
    flush();
    open("tiles", instruction, address);
    events_.key("operands").open('[');
    for (uint32_t i = 0; i < count; ++i) {
        const PyptoTileAccess &a = operands[i];
        const Runs runs = runs_of(a);
        const PyptoMemory &memory = context.memory[a.space];
        const auto *base = static_cast<const uint8_t *>(a.base);
        const int64_t place = base - memory.base, size = (runs.count - 1) * runs.stride + runs.length;
        if (runs.count == 0 || place < 0 || place + runs.start + size > static_cast<int64_t>(memory.size))
            continue;
        const int64_t row[] = {
            a.space,   a.access,       a.fractals,     a.type, a.inner_rows, a.row_major,
            a.element, a.rows,         a.cols,         a.row,  a.col,        a.height,
            a.width,   a.fractal_rows, a.fractal_cols, place,  runs.start,   static_cast<int64_t>(bytes_.size()),
            size};
        events_.list(row, sizeof(row) / sizeof(row[0]));
        if (a.access & PYPTO_WRITE)
            pending_.push_back({base + runs.start, static_cast<uint64_t>(size), bytes_.size()});
        bytes_.append(reinterpret_cast<const char *>(base + runs.start), static_cast<size_t>(size));
    }
    events_.close(']').close('}');
}

void Trace::global(const char *instruction, void *address, const PyptoGlobalAccess &a) {
    open("global", instruction, address);
    events_.key("base").whole(reinterpret_cast<uint64_t>(a.base)).key("access").number(a.access);
    events_.key("layout").number(a.layout).key("element").number(a.element);
    events_.key("shape").list(a.shape, 5).key("stride").list(a.stride, 5);
    const int64_t most = int64_t{1} << 32; // a view as large as it is has more
    events_.key("rows").number(a.rows < most ? a.rows : most).key("cols").number(a.cols < most ? a.cols : most);
    events_.close('}');
}

void Trace::write(const std::string &stem) {
    flush();
    write_file(stem + ".bin", bytes_);
    write_file(stem + ".json", events_.close(']').str() + "\n");
}

} // namespace pypto::runtime
