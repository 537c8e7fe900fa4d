// Kernel Function: softmax_rows
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
#include "tensor.h"

using namespace pto;

// --- ptoas-generated code ---
enum class PTOAutoSyncTailMode : int {
  kBarrierAll = 0,
};

static __aicore__ inline void ptoas_auto_sync_tail(PTOAutoSyncTailMode mode) {
  if (mode == PTOAutoSyncTailMode::kBarrierAll) {
    pipe_barrier(PIPE_ALL);
  }
}

static __aicore__ void softmax_rows(__gm__ float* v1, __gm__ float* v2) {
  const int64_t v3 = 64;
  const int64_t v4 = 256;
  const int64_t v5 = 1;
  const int64_t v6 = 0;
  const int64_t v8 = 0;
  const int64_t v12 = 65536;
  const int64_t v14 = 131072;
  using T = float;

  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v7 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v3, v4);
  TASSIGN(v7, v6);
  pto::Shape<1, 1, 1, 64, 256> v9 = pto::Shape<1, 1, 1, 64, 256>();
  pto::Stride<16384, 16384, 16384, 256, 1> v10 = pto::Stride<16384, 16384, 16384, 256, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 64, 256>, pto::Stride<16384, 16384, 16384, 256, 1>, pto::Layout::ND> v11 = GlobalTensor<float, pto::Shape<1, 1, 1, 64, 256>, pto::Stride<16384, 16384, 16384, 256, 1>, pto::Layout::ND>(v1 + (v8 * v4 + v8 * v5), v9, v10);
  TLOAD(v7, v11);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v13 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v3, v4);
  TASSIGN(v13, v12);
  Tile<TileType::Vec, float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v15 = Tile<TileType::Vec, float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v3, v5);
  TASSIGN(v15, v14);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TROWMAX(v15, v7, v13);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v16 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v3, v4);
  TASSIGN(v16, v6);
  pipe_barrier(PIPE_V);
  TROWEXPANDSUB(v16, v7, v15);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v17 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v3, v4);
  TASSIGN(v17, v6);
  pipe_barrier(PIPE_V);
  TEXP(v17, v16);
  Tile<TileType::Vec, float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v18 = Tile<TileType::Vec, float, 64, 1, BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v3, v5);
  TASSIGN(v18, v14);
  pipe_barrier(PIPE_V);
  TROWSUM(v18, v17, v13);
  Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v19 = Tile<TileType::Vec, float, 64, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v3, v4);
  TASSIGN(v19, v6);
  pipe_barrier(PIPE_V);
  TROWEXPANDDIV(v19, v17, v18);
  pto::Shape<1, 1, 1, 64, 256> v20 = pto::Shape<1, 1, 1, 64, 256>();
  pto::Stride<16384, 16384, 16384, 256, 1> v21 = pto::Stride<16384, 16384, 16384, 256, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 64, 256>, pto::Stride<16384, 16384, 16384, 256, 1>, pto::Layout::ND> v22 = GlobalTensor<float, pto::Shape<1, 1, 1, 64, 256>, pto::Stride<16384, 16384, 16384, 256, 1>, pto::Layout::ND>(v2 + (v8 * v4 + v8 * v5), v20, v21);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(v22, v19);
  #endif // __DAV_VEC__

  ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);
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

    // Unpack tensor: out
    __gm__ ChipTensor* out_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ float* out = reinterpret_cast<__gm__ float*>(out_tensor->buffer.addr) + out_tensor->start_offset;

    // Forward to ptoas-generated function
    softmax_rows(x, out);
}
