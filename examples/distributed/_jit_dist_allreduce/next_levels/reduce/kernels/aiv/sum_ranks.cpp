// Kernel Function: sum_ranks
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
static __aicore__ void sum_ranks(__gm__ float* v1, __gm__ int32_t* v2, __gm__ float* v3, __gm__ CommContext* v4, int64_t v5) {
  const int64_t v6 = 1;
  const int64_t v7 = 256;
  const int64_t v8 = 0;
  const int64_t v9 = 1024;

  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  int64_t v10 = v4->rankId;
  // Everybody is told that this rank's part is there, and every part is waited for.
  for (int64_t v11 = 0; v11 < v5; ++v11) {
    comm::Signal v12(peer_address(v4, v2 + v10, v11));
    comm::TNOTIFY(v12, static_cast<int32_t>(1), comm::NotifyOp::AtomicAdd);
  }
  for (int64_t v11 = 0; v11 < v5; ++v11) {
    comm::Signal v12(v2 + v11);
    comm::TWAIT(v12, static_cast<int32_t>(1), comm::WaitCmp::GE);
  }
  Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v13 = Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v6, v7);
  TASSIGN(v13, v8);
  Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v14 = Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v6, v7);
  TASSIGN(v14, v9);
  pto::Shape<1, 1, 1, 1, 256> v15 = pto::Shape<1, 1, 1, 1, 256>();
  pto::Stride<256, 256, 256, 256, 1> v16 = pto::Stride<256, 256, 256, 256, 1>();
  using Part = GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND>;
  // In the order of the ranks, so that every rank has the same bits.
  Part v17(peer_address(v4, v1, static_cast<int64_t>(0)), v15, v16);
  TLOAD(v13, v17);
  for (int64_t v11 = 1; v11 < v5; ++v11) {
    Part v18(peer_address(v4, v1, v11), v15, v16);
    TLOAD(v14, v18);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TADD(v13, v13, v14);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
  }
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  Part v19(v3, v15, v16);
  TSTORE(v19, v13);
  // The credits are given back, so that the cells are zero again.
  for (int64_t v11 = 0; v11 < v5; ++v11) {
    comm::Signal v12(v2 + v11);
    comm::TNOTIFY(v12, static_cast<int32_t>(-1), comm::NotifyOp::AtomicAdd);
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

    // Unpack tensor: partial
    __gm__ ChipTensor* partial_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0]);
    __gm__ float* partial = reinterpret_cast<__gm__ float*>(partial_tensor->buffer.addr) + partial_tensor->start_offset;

    // Unpack tensor: arrived
    __gm__ ChipTensor* arrived_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ int32_t* arrived = reinterpret_cast<__gm__ int32_t*>(arrived_tensor->buffer.addr) + arrived_tensor->start_offset;

    // Unpack tensor: total
    __gm__ ChipTensor* total_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[2]);
    __gm__ float* total = reinterpret_cast<__gm__ float*>(total_tensor->buffer.addr) + total_tensor->start_offset;

    // Unpack scalar: ctx, nranks
    __gm__ CommContext* ctx = reinterpret_cast<__gm__ CommContext*>(args[3]);
    int64_t nranks = args[4];

    // Forward to ptoas-generated function
    sum_ranks(partial, arrived, total, ctx, nranks);
}
