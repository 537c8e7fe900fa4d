// Kernel Function: kernel_mul
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

static __aicore__ void kernel_mul(__gm__ float* v1, __gm__ float* v2, __gm__ float* v3) {
  const int64_t v4 = 128;
  const int64_t v5 = 1;
  const int64_t v6 = 0;
  const int64_t v8 = 0;
  const int64_t v12 = 65536;
  using T = float;

  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v7 = Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v4, v4);
  TASSIGN(v7, v6);
  pto::Shape<1, 1, 1, 128, 128> v9 = pto::Shape<1, 1, 1, 128, 128>();
  pto::Stride<16384, 16384, 16384, 128, 1> v10 = pto::Stride<16384, 16384, 16384, 128, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND> v11 = GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND>(v1 + (v8 * v4 + v8 * v5), v9, v10);
  TLOAD(v7, v11);
  Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v13 = Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v4, v4);
  TASSIGN(v13, v12);
  pto::Shape<1, 1, 1, 128, 128> v14 = pto::Shape<1, 1, 1, 128, 128>();
  pto::Stride<16384, 16384, 16384, 128, 1> v15 = pto::Stride<16384, 16384, 16384, 128, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND> v16 = GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND>(v2 + (v8 * v4 + v8 * v5), v14, v15);
  TLOAD(v13, v16);
  Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v17 = Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v4, v4);
  TASSIGN(v17, v6);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TMUL(v17, v7, v13);
  pto::Shape<1, 1, 1, 128, 128> v18 = pto::Shape<1, 1, 1, 128, 128>();
  pto::Stride<16384, 16384, 16384, 128, 1> v19 = pto::Stride<16384, 16384, 16384, 128, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND> v20 = GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND>(v3 + (v8 * v4 + v8 * v5), v18, v19);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(v20, v17);
  #endif // __DAV_VEC__

  ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);
  return;
}

// --- Kernel entry point ---
extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {
    // Unpack tensor: a
    __gm__ Tensor* a_tensor = reinterpret_cast<__gm__ Tensor*>(args[0]);
    __gm__ float* a = reinterpret_cast<__gm__ float*>(a_tensor->buffer.addr) + a_tensor->start_offset;

    // Unpack tensor: b
    __gm__ Tensor* b_tensor = reinterpret_cast<__gm__ Tensor*>(args[1]);
    __gm__ float* b = reinterpret_cast<__gm__ float*>(b_tensor->buffer.addr) + b_tensor->start_offset;

    // Unpack tensor: out
    __gm__ Tensor* out_tensor = reinterpret_cast<__gm__ Tensor*>(args[2]);
    __gm__ float* out = reinterpret_cast<__gm__ float*>(out_tensor->buffer.addr) + out_tensor->start_offset;

    // Forward to ptoas-generated function
    kernel_mul(a, b, out);
}
