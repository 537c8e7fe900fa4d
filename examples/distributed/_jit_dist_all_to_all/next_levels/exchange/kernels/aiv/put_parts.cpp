// Kernel Function: put_parts
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
static __aicore__ void put_parts(__gm__ float* x, __gm__ float* inbox, __gm__ int32_t* arrived, __gm__ float* y, __gm__ CommContext* ctx, int64_t nranks) {
  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  using Row = GlobalTensor<float, pto::Shape<1, 1, 1, 1, 64>, pto::Stride<64, 64, 64, 64, 1>, pto::Layout::ND>;
  pto::Shape<1, 1, 1, 1, 64> v1 = pto::Shape<1, 1, 1, 1, 64>();
  pto::Stride<64, 64, 64, 64, 1> v2 = pto::Stride<64, 64, 64, 64, 1>();
  Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v3 = Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(static_cast<int64_t>(1), static_cast<int64_t>(64));
  TASSIGN(v3, static_cast<int64_t>(0));
  Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v4 = Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(static_cast<int64_t>(1), static_cast<int64_t>(64));
  TASSIGN(v4, static_cast<int64_t>(256));
  int64_t v5 = ctx->rankId;
  // Part d of this rank's row is put into place v5 of rank d.
  for (int64_t v6 = 0; v6 < nranks; ++v6) {
    Row v7(x + v6 * 64, v1, v2);
    Row v8(peer_address(ctx, inbox + v5 * 64, v6), v1, v2);
    comm::TPUT(v8, v7, v3);
    pipe_barrier(PIPE_ALL);
    dsb(DSB_DDR);
    comm::Signal v9(peer_address(ctx, arrived + v5, v6));
    comm::TNOTIFY(v9, static_cast<int32_t>(1), comm::NotifyOp::AtomicAdd);
  }
  for (int64_t v6 = 0; v6 < nranks; ++v6) {
    comm::Signal v9(arrived + v6);
    comm::TWAIT(v9, static_cast<int32_t>(1), comm::WaitCmp::GE);
    Row v7(inbox + v6 * 64, v1, v2);
    TLOAD(v4, v7);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    Row v8(y + v6 * 64, v1, v2);
    TSTORE(v8, v4);
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    comm::TNOTIFY(v9, static_cast<int32_t>(-1), comm::NotifyOp::AtomicAdd);
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

    // Unpack tensor: inbox
    __gm__ ChipTensor* inbox_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ float* inbox = reinterpret_cast<__gm__ float*>(inbox_tensor->buffer.addr) + inbox_tensor->start_offset;

    // Unpack tensor: arrived
    __gm__ ChipTensor* arrived_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[2]);
    __gm__ int32_t* arrived = reinterpret_cast<__gm__ int32_t*>(arrived_tensor->buffer.addr) + arrived_tensor->start_offset;

    // Unpack tensor: y
    __gm__ ChipTensor* y_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[3]);
    __gm__ float* y = reinterpret_cast<__gm__ float*>(y_tensor->buffer.addr) + y_tensor->start_offset;

    // Unpack scalar: ctx
    __gm__ CommContext* ctx = reinterpret_cast<__gm__ CommContext*>(args[4]);

    // Unpack scalar: nranks
    int64_t nranks = args[5];

    // Forward to ptoas-generated function
    put_parts(x, inbox, arrived, y, ctx, nranks);
}
