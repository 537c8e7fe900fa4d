// Records the data that every instruction of a kernel writes. `scons diverge` compiles a kernel with this header and
// a PYPTO_PROBE behind each instruction. Records go to $PYPTO_PROBE_DIR/<kernel>.<lane>.<block> if it is set.
#pragma once

#include <cstdint>
#include <pto/pto-inst.hpp>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

namespace pypto_probe {

struct Header {
    char name[24];
    uint32_t line;
    int32_t space;    // number of the memory, -1 for global memory
    uint64_t address; // in bytes: within the memory, absolute in global memory
    uint32_t element; // bytes
    uint32_t rows, cols;
};

inline void write(const Header &header, const std::vector<char> &data) {
    const char *const directory = getenv("PYPTO_PROBE_DIR");
    if (directory == nullptr)
        return;
    const PyptoCoreContext &core = pto::detail::core();
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.%d.%d", directory, PYPTO_PROBE_NAME, core.is_vector ? core.sub_block : 0,
             core.block_idx);
    FILE *const file = fopen(path, "ab");
    if (file == nullptr)
        return;
    fwrite(&header, sizeof(header), 1, file);
    fwrite(data.data(), 1, data.size(), file);
    fclose(file);
}

inline Header header_of(const char *name, int line, const void *place, size_t element) {
    Header header{};
    snprintf(header.name, sizeof(header.name), "%s", name);
    header.line = uint32_t(line);
    header.space = -1;
    header.address = uint64_t(place);
    header.element = uint32_t(element);
    const PyptoCoreContext &core = pto::detail::core();
    for (int space = 0; space < PYPTO_SPACE_COUNT; ++space) {
        const PyptoMemory &memory = core.memory[space];
        if ((const uint8_t *)place >= memory.base && (const uint8_t *)place < memory.base + memory.size) {
            header.space = space;
            header.address = uint64_t((const uint8_t *)place - memory.base);
        }
    }
    return header;
}

template <class T> void record(int line, const char *name, const T &target) {
    using E = typename T::DType;
    Header header = header_of(name, line, target.data(), sizeof(E));
    std::vector<char> data;
    const auto append = [&](const E *element) {
        data.insert(data.end(), (const char *)element, (const char *)element + sizeof(E));
    };
    if constexpr (pto::detail::is_tile<T>) {
        header.rows = uint32_t(target.GetValidRow());
        header.cols = uint32_t(target.GetValidCol());
        for (int64_t r = 0; r < int64_t(header.rows); ++r)
            for (int64_t c = 0; c < int64_t(header.cols); ++c)
                append((const E *)target.data() + T::plane().offset(r, c));
    } else {
        const int64_t n[] = {target.GetShape(0), target.GetShape(1), target.GetShape(2), target.GetShape(3),
                             target.GetShape(4)};
        header.rows = uint32_t(n[0] * n[1] * n[2] * n[3]);
        header.cols = uint32_t(n[4]);
        for (int64_t r = 0; r < int64_t(header.rows); ++r)
            for (int64_t c = 0; c < n[4]; ++c)
                append((const E *)target.data() + r / (n[1] * n[2] * n[3]) * target.GetStride(0) +
                       r / (n[2] * n[3]) % n[1] * target.GetStride(1) + r / n[3] % n[2] * target.GetStride(2) +
                       r % n[3] * target.GetStride(3) + c * target.GetStride(4));
    }
    write(header, data);
}

} // namespace pypto_probe

#define PYPTO_PROBE(name, target) pypto_probe::record(__LINE__, name, target)
