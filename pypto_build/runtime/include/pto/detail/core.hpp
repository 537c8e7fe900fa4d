// The core a kernel runs on: its on-chip memories and its place in the task. Bound by the runtime before each entry.
#ifndef PTO_DETAIL_CORE_HPP
#define PTO_DETAIL_CORE_HPP

#include <cstdint>

#include "../../pypto/core_context.h"
#include "check.hpp"
#include "global_tensor.hpp"
#include "macros.hpp"
#include "tile.hpp"

namespace pto {

// Sizes that hand-written kernels compute with: bytes of a block, of a repeat and of a cube block, rows of a fractal.
constexpr int BLOCK_BYTE_SIZE = 32;
constexpr int C0_SIZE_BYTE = 32;
constexpr int REPEAT_BYTE = 256;
constexpr int CUBE_BLOCK_SIZE = 512;
constexpr int BLOCK_LEN = 16;
constexpr int FRACTAL_NZ_ROW = 16;
constexpr int FRACTAL_ZZ_ROW = 16;
constexpr int ACC_C0_SIZE = 16;

} // namespace pto

namespace pto::detail {

inline __attribute__((visibility("hidden"))) __thread PyptoCoreContext *bound_core = nullptr;

PTO_INLINE PyptoCoreContext &core() {
    return *bound_core;
}
#ifdef PYPTO_WEAK
inline void check::plain(const volatile void *address, uint64_t bytes, uint32_t access, void *code) {
    PyptoCoreContext *const context = bound_core; // none before the first call
    if (unseen_depth == 0 && context && context->check)
        context->check->plain(context, (const void *)address, bytes, access, code);
}
#endif

// Ends the task with a message that names the place in the kernel, when it is known.
template <class = void>
[[noreturn]] PTO_NOINLINE void fault(const char *message, const char *file = nullptr, int line = 0) {
    core().fault(&core(), message, file, line);
    __builtin_trap();
}

constexpr PyptoSpace space_of(TileType type) {
    constexpr PyptoSpace spaces[] = {PYPTO_UB,   PYPTO_L1,   PYPTO_L0A,     PYPTO_L0B,     PYPTO_L0C,
                                     PYPTO_BIAS, PYPTO_FBUF, PYPTO_SCALE_A, PYPTO_SCALE_B, PYPTO_UB};
    return spaces[int(type)];
}

// Between two looks at memory that another core writes.
extern "C" int sched_yield(void) noexcept(true);
PTO_INLINE void relax() {
    sched_yield();
}

// A host address is taken as it is when it lies in one of the core's memories: code may pass on a tile's data().
template <class = void> PTO_NOINLINE uint8_t *resolve_host_address(uint64_t address) {
    for (const PyptoMemory &memory : core().memory) {
        const uint64_t base = uint64_t(memory.base);
        if (address >= base && address - base < memory.size)
            return memory.base + (address - base);
    }
    fault("TASSIGN: the address lies beyond the tile's memory space and in no other one of this core");
}

PTO_INLINE uint8_t *resolve_address(PyptoSpace space, uint64_t address) {
    const PyptoMemory &memory = core().memory[space];
    return __builtin_expect(address < memory.size, 1) ? memory.base + address : resolve_host_address(address);
}

} // namespace pto::detail

extern "C" {
extern __attribute__((weak, visibility("default"))) const uint32_t pypto_core_abi; // compared before a run
__attribute__((used)) const uint32_t pypto_core_abi = PYPTO_CORE_ABI;
}

extern "C" __attribute__((weak, used, visibility("default"))) void pypto_bind_core(PyptoCoreContext *context) {
    pto::detail::bound_core = context;
#ifdef PYPTO_WEAK
    pto::detail::check::unseen_depth = 0; // of a kernel that a fault ended
#endif
}

// The vector lane, and the SPMD block of the task. Functions, so that the forms that take the kernel's args overload
// them.
PTO_INLINE int64_t get_block_idx() {
    return pto::detail::core().block_idx;
}
PTO_INLINE int64_t get_block_num() {
    return pto::detail::core().block_num;
}
PTO_INLINE int64_t get_subblockid() {
    return pto::detail::core().sub_block;
}
PTO_INLINE int64_t get_subblockdim() {
    return pto::detail::core().sub_block_dim;
}

namespace pto {

// TASSIGN(tile, address): places a tile at a byte address of its memory space.
// TASSIGN(global tensor, pointer): points a view at other memory.
template <class T, class Address> PTO_INST void TASSIGN(T &target, Address address) {
    if constexpr (detail::is_global_tensor<T>) {
        target.SetAddr((typename T::DType *)address);
    } else {
        static_assert(detail::is_tile<T>, "TASSIGN: the first operand is a Tile or a GlobalTensor");
        target.data() = (typename T::DType *)detail::resolve_address(detail::space_of(T::Loc), (uint64_t)address);
    }
}
template <uint64_t address, class T> PTO_INST void TASSIGN(T &tile) {
    TASSIGN(tile, address);
}

// TRESHAPE(to, from): the same bytes seen as another tile type.
template <class To, class From> PTO_INST void TRESHAPE(To &to, const From &from) {
    to.data() = (typename To::DType *)from.data();
}

} // namespace pto

#endif
