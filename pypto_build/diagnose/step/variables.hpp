// Tells what variables of a kernel hold: `scons step` compiles a kernel with this in front, in the checked build, and a
// PYPTO_VARIABLE behind each declaration and assignment.
#pragma once

#include <pto/pto-inst.hpp>

namespace pto::detail::check {

// Tells what a variable holds: a tile where it lies, a view what it covers, numbers and pointers. Others are left out.
template <class T> inline void variable(const char *name, const T &value) {
    PyptoCoreContext &context = core();
    if (context.check == nullptr)
        return;
    PyptoVariable told{};
    if constexpr (is_tile<T>) {
        if (value.data() == nullptr)
            return;
        const PyptoTileAccess tile = reads(value);
        told.kind = PYPTO_VARIABLE_TILE;
        told.tile = &tile;
        context.check->variable(&context, name, &told);
    } else if constexpr (is_global_tensor<T>) {
        const PyptoGlobalAccess view = loads(value, all, all);
        told.kind = PYPTO_VARIABLE_VIEW;
        told.view = &view;
        context.check->variable(&context, name, &told);
    } else if constexpr (is_one_of<T, float, double, half, bfloat16_t>) {
        const double real = double(float(value));
        told.kind = PYPTO_VARIABLE_REAL;
        __builtin_memcpy(&told.bits, &real, sizeof(real));
        context.check->variable(&context, name, &told);
    } else if constexpr (is_one_of<T, int8_t, int16_t, int32_t, int64_t, long long, char>) {
        told.kind = PYPTO_VARIABLE_SIGNED;
        told.bits = uint64_t(int64_t(value));
        context.check->variable(&context, name, &told);
    } else if constexpr (is_one_of<T, bool, uint8_t, uint16_t, uint32_t, uint64_t, unsigned long long>) {
        told.kind = PYPTO_VARIABLE_UNSIGNED;
        told.bits = uint64_t(value);
        context.check->variable(&context, name, &told);
    }
}
template <class T> inline void variable(const char *name, T *value) {
    PyptoCoreContext &context = core();
    PyptoVariable told{};
    told.kind = PYPTO_VARIABLE_POINTER;
    told.bits = uint64_t(value);
    if (context.check)
        context.check->variable(&context, name, &told);
}

} // namespace pto::detail::check

#define PYPTO_VARIABLE(name) ::pto::detail::check::variable(#name, name)
