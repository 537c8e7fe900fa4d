// Kernel Function: scale_and_send
// Example artifact of pypto-build, written in the form of PyPTO's PTO backend

#include <cstdint>

#ifndef __gm__
#define __gm__
#endif

#ifndef __aicore__
#ifdef __CPU_SIM
#define __aicore__
#else
#define __aicore__ [aicore]
#endif
#endif

#include <pto/pto-inst.hpp>

#include "platform_comm/comm_context.h"
#include "pto/comm/comm_types.hpp"
#include "pto/comm/pto_comm_inst.hpp"
#include "tensor.h"

using namespace pto;

// The same place in the window of rank v3.
template <typename T>
static __aicore__ inline __gm__ T* peer_address(__gm__ CommContext* v1, __gm__ T* v2, int64_t v3) {
  uint64_t v4 = reinterpret_cast<uint64_t>(v2) - v1->windowsIn[v1->rankId];
  return reinterpret_cast<__gm__ T*>(v1->windowsIn[v3] + v4);
}

// --- ptoas-generated code ---
static __aicore__ void scale_and_send(__gm__ float* x, __gm__ float* slots, __gm__ int32_t* full, __gm__ int32_t* free_, __gm__ CommContext* ctx) {
  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  using Row = GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND>;
  pto::Shape<1, 1, 1, 1, 256> v1 = pto::Shape<1, 1, 1, 1, 256>();
  pto::Stride<256, 256, 256, 256, 1> v2 = pto::Stride<256, 256, 256, 256, 1>();
  Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v3 = Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(static_cast<int64_t>(1), static_cast<int64_t>(256));
  TASSIGN(v3, static_cast<int64_t>(0));
  Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v4 = Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(static_cast<int64_t>(1), static_cast<int64_t>(256));
  TASSIGN(v4, static_cast<int64_t>(1024));
  for (int64_t v5 = 0; v5 < 4; ++v5) {
    // Two slots: the third row waits until the first has been taken out.
    if (v5 >= 2) {
      comm::Signal v6(free_);
      comm::TWAIT(v6, static_cast<int32_t>(v5 - 1), comm::WaitCmp::GE);
    }
    Row v7(x + v5 * 256, v1, v2);
    TLOAD(v3, v7);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TMULS(v4, v3, 2.0f);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    Row v8(peer_address(ctx, slots + (v5 % 2) * 256, static_cast<int64_t>(1)), v1, v2);
    TSTORE(v8, v4);
    pipe_barrier(PIPE_ALL);
    dsb(DSB_DDR);
    comm::Signal v9(peer_address(ctx, full, static_cast<int64_t>(1)));
    comm::TNOTIFY(v9, static_cast<int32_t>(1), comm::NotifyOp::AtomicAdd);
  }
  pipe_barrier(PIPE_ALL);
  #endif // __DAV_VEC__

  return;
}

// --- Kernel entry point ---
extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {
#if !defined(__CPU_SIM) && !defined(__COSTMODEL)
    set_atomic_none();
#endif

    // Unpack tensor: x
    __gm__ ChipTensor* x_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0]);
    __gm__ float* x = reinterpret_cast<__gm__ float*>(x_tensor->buffer.addr) + x_tensor->start_offset;

    // Unpack tensor: slots
    __gm__ ChipTensor* slots_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ float* slots = reinterpret_cast<__gm__ float*>(slots_tensor->buffer.addr) + slots_tensor->start_offset;

    // Unpack tensor: full
    __gm__ ChipTensor* full_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[2]);
    __gm__ int32_t* full = reinterpret_cast<__gm__ int32_t*>(full_tensor->buffer.addr) + full_tensor->start_offset;

    // Unpack tensor: free_
    __gm__ ChipTensor* free__tensor = reinterpret_cast<__gm__ ChipTensor*>(args[3]);
    __gm__ int32_t* free_ = reinterpret_cast<__gm__ int32_t*>(free__tensor->buffer.addr) + free__tensor->start_offset;

    // Unpack scalar: ctx
    __gm__ CommContext* ctx = reinterpret_cast<__gm__ CommContext*>(args[4]);

    // Forward to ptoas-generated function
    scale_and_send(x, slots, full, free_, ctx);
}
