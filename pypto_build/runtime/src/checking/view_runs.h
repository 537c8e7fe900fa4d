// The bytes of a view of global memory, as runs: `rows` pieces of `length` bytes, `stride` bytes apart.
#pragma once

#include "pypto/check_abi.h"

#include <algorithm>
#include <cstdint>

namespace pypto::runtime {

constexpr int kLayoutDN = 1, kLayoutNZ = 2; // pto::Layout

// The runs of a matrix of h x w elements, as rows or, where only those are contiguous, as columns.
template <typename Emit>
void emit_matrix(uint64_t base, int64_t h, int64_t w, int64_t row_stride, int64_t col_stride, int64_t element,
                 Emit emit) {
    if (col_stride == 1 || w == 1)
        emit(base, h, row_stride * element, w * element);
    else if (row_stride == 1 || h == 1)
        emit(base, w, col_stride * element, h * element);
    else
        for (int64_t r = 0; r < h; ++r)
            emit(base + static_cast<uint64_t>(r * row_stride * element), w, col_stride * element, element);
}

template <typename Emit> void emit_view(const PyptoGlobalAccess &a, Emit emit) {
    const int64_t *n = a.shape, element = a.element;
    for (int64_t i = 0; i < n[0]; ++i)
        for (int64_t j = 0; j < n[1]; ++j)
            for (int64_t k = 0; k < n[2]; ++k) {
                const int64_t index = (i * n[1] + j) * n[2] + k;
                const int64_t row = a.layout == kLayoutNZ ? k * n[3] : a.layout == kLayoutDN ? 0 : index * n[3];
                const int64_t col = a.layout == kLayoutNZ   ? (i * n[1] + j) * n[4]
                                    : a.layout == kLayoutDN ? index * n[4]
                                                            : 0;
                const int64_t h = std::min(a.rows - row, n[3]), w = std::min(a.cols - col, n[4]);
                const int64_t offset = i * a.stride[0] + j * a.stride[1] + k * a.stride[2];
                if (h > 0 && w > 0)
                    emit_matrix(reinterpret_cast<uint64_t>(a.base) + static_cast<uint64_t>(offset * element), h, w,
                                a.stride[3], a.stride[4], element, emit);
            }
}

} // namespace pypto::runtime
