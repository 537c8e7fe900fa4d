// Keeps the instructions of kernel calls, each distinct one once.
#include "checking/instruction_record.h"
#include "base/json_writer.h"

#include <cstring>
#include <dlfcn.h>

namespace pypto::runtime {

namespace {

std::vector<const std::string *> by_number(const std::unordered_map<std::string, uint32_t> &known) {
    std::vector<const std::string *> keys(known.size());
    for (const auto &[key, number] : known)
        keys[number] = &key;
    return keys;
}

uint32_t number_of(std::unordered_map<std::string, uint32_t> &known, const std::string &key) {
    return known.try_emplace(key, static_cast<uint32_t>(known.size())).first->second;
}

// Copies fields that lie one behind the other. What lies between others is part of a key, so it stays zero.
template <typename T, typename First, typename Last>
void copy_fields(T &to, const T &from, First T::*first, Last T::*last) {
    char *begin = reinterpret_cast<char *>(&(to.*first));
    std::memcpy(begin, &(from.*first), static_cast<size_t>(reinterpret_cast<char *>(&(to.*last) + 1) - begin));
}

template <typename T> T read_from(const char *&from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    from += sizeof(T);
    return value;
}

template <typename T> std::string bytes_of(const std::vector<T> &values) {
    return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

} // namespace

void InstructionRecord::begin() {
    row_.clear();
    stream_.clear();
    call_bases_ = bases_.size();
}

void InstructionRecord::open(const Head &head) {
    close();
    put(&head, sizeof head);
}

void InstructionRecord::close() {
    if (row_.empty())
        return;
    stream_.push_back(number_of(rows_, row_));
    row_.clear();
}

void InstructionRecord::tiles(const char *name, uint32_t pipe, void *address, const PyptoCoreContext &context,
                              const PyptoTileAccess *operands, uint32_t count) {
    open({reinterpret_cast<uint64_t>(address), name, kInstruction, pipe, 0, 0, count, 0});
    for (uint32_t i = 0; i < count; ++i) {
        PyptoTileAccess tile;
        std::memset(&tile, 0, sizeof tile);
        const PyptoTileAccess &a = operands[i];
        tile.base = reinterpret_cast<const void *>(static_cast<const uint8_t *>(a.base) - context.memory[a.space].base);
        copy_fields(tile, a, &PyptoTileAccess::space, &PyptoTileAccess::row_major);
        copy_fields(tile, a, &PyptoTileAccess::element, &PyptoTileAccess::fractal_cols);
        if (pipe == 0 && a.height == 1 && a.width == 1) // an element: which one makes no difference
            tile.row = tile.col = 0;
        put(&tile, sizeof tile);
    }
}

void InstructionRecord::global(const char *name, uint32_t pipe, void *address, const PyptoGlobalAccess &access) {
    Head head{reinterpret_cast<uint64_t>(address), name, kInstruction, pipe, 0, 0, 0, 0};
    Head last{};
    if (!row_.empty())
        std::memcpy(&last, row_.data(), sizeof last);
    if (last.name != name || last.pipe != pipe || last.views != 0) // else it goes with the tiles that came before
        open(head);
    std::memcpy(&head, row_.data(), sizeof head);
    head.views = 1;
    std::memcpy(&row_[0], &head, sizeof head);
    PyptoGlobalAccess view;
    std::memset(&view, 0, sizeof view);
    copy_fields(view, access, &PyptoGlobalAccess::access, &PyptoGlobalAccess::layout);
    copy_fields(view, access, &PyptoGlobalAccess::element, &PyptoGlobalAccess::cols);
    put(&view, sizeof view);
    bases_.push_back(reinterpret_cast<uint64_t>(access.base));
}

void InstructionRecord::order(uint32_t kind, uint32_t from, uint32_t to, uint32_t id, void *address) {
    open({reinterpret_cast<uint64_t>(address), "", kind, from, to, id, 0, 0});
}

// A producer acquires within its TPUSH, a consumer within its TPOP, which waits for it.
void InstructionRecord::slot(bool acquired, bool producing, uint32_t ring, uint32_t slots) {
    std::string within;
    if (acquired && !row_.empty()) {
        Head last;
        std::memcpy(&last, row_.data(), sizeof last);
        if (std::strcmp(last.name, "TPUSH") == 0 || std::strcmp(last.name, "TPOP") == 0)
            within.swap(row_);
    }
    const uint32_t kind = acquired ? kSlotAcquired : kSlotPassed;
    open({0, producing ? "producer" : "consumer", kind, 0, slots, ring, 0, 0});
    close();
    row_.swap(within);
}

void InstructionRecord::met(uint32_t cores) {
    open({0, "SYNCALL", kMet, 0, 0, cores, 0, 0});
}

void InstructionRecord::end(Call call) {
    close();
    call.stream = number_of(streams_, bytes_of(stream_));
    call.bases = static_cast<uint32_t>(bases_.size() - call_bases_);
    calls_.push_back(call);
}

void InstructionFile::add(const InstructionRecord &core) {
    std::vector<uint32_t> rows, streams;
    for (const std::string *row : by_number(core.rows_))
        rows.push_back(number_of(rows_, *row));
    for (const std::string *stream : by_number(core.streams_)) {
        std::vector<uint32_t> events(stream->size() / sizeof(uint32_t));
        std::memcpy(events.data(), stream->data(), stream->size());
        for (uint32_t &event : events)
            event = rows[event];
        streams.push_back(number_of(streams_, bytes_of(events)));
    }
    for (InstructionRecord::Call call : core.calls_) {
        call.stream = streams[call.stream];
        calls_.push_back(call);
    }
    bases_.insert(bases_.end(), core.bases_.begin(), core.bases_.end());
}

void InstructionFile::write(const std::string &directory, const WaitRecord &waits, bool complete) const {
    JsonWriter json;
    json.open('{').key("schema").number(1).key("complete").boolean(complete);
    json.key("calls").number(calls_.size()).key("bases").number(bases_.size()).key("rows").open('[');
    for (const std::string *row : by_number(rows_)) {
        const char *from = row->data();
        const auto head = read_from<InstructionRecord::Head>(from);
        Dl_info info{};
        if (head.address)
            dladdr(reinterpret_cast<const void *>(head.address), &info);
        json.newline().open('{').key("kind").number(head.kind).key("name").text(head.name);
        json.key("pipe").number(head.pipe).key("to").number(head.to).key("id").number(head.id);
        json.key("file").text(info.dli_fname ? info.dli_fname : "");
        json.key("offset").number(head.address ? head.address - reinterpret_cast<uint64_t>(info.dli_fbase) - 1 : 0);
        json.key("tiles").open('[');
        for (uint32_t i = 0; i < head.tiles; ++i) {
            const auto a = read_from<PyptoTileAccess>(from);
            json.row(reinterpret_cast<int64_t>(a.base), a.space, a.access, a.fractals, a.type, a.inner_rows,
                     a.row_major, a.element, a.rows, a.cols, a.valid_row, a.valid_col, a.row, a.col, a.height, a.width);
        }
        json.close(']').key("views").open('[');
        for (uint32_t i = 0; i < head.views; ++i) {
            const auto a = read_from<PyptoGlobalAccess>(from);
            const int64_t most = int64_t{1} << 32; // a view as large as it is has more
            json.open('[').number(a.access).number(a.layout).number(a.element);
            json.list(a.shape, 5).list(a.stride, 5);
            json.number(a.rows < most ? a.rows : most).number(a.cols < most ? a.cols : most).close(']');
        }
        json.close(']').close('}');
    }
    json.close(']').key("streams").open('[');
    std::string binary = bytes_of(bases_) + bytes_of(calls_);
    for (const std::string *stream : by_number(streams_)) {
        json.number(stream->size() / sizeof(uint32_t));
        binary += *stream;
    }
    json.close(']').key("tasks").open('[');
    for (const WaitRecord::Row &task : waits.rows()) {
        json.newline().open('[').number(task.id);
        for (const uint32_t producer : task.producers)
            json.number(producer);
        json.close(']');
    }
    json.close(']').close('}').newline();
    make_directories(directory);
    write_file(directory + "/instructions.bin", binary);
    write_file(directory + "/instructions.json", json.str());
}

} // namespace pypto::runtime
