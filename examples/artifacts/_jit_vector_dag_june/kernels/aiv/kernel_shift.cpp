// Kernel Function: kernel_shift
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

static __aicore__ void kernel_shift(__gm__ float* v1, __gm__ float* v2, float v3, int32_t v4) {
  const int64_t v5 = 128;
  const int64_t v6 = 1;
  const int64_t v9 = 0;
  const int64_t v11 = 0;
  using T = float;

  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  float v7 = (float) v4;
  float v8 = v3 * v7;
  Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v10 = Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v5);
  TASSIGN(v10, v9);
  pto::Shape<1, 1, 1, 128, 128> v12 = pto::Shape<1, 1, 1, 128, 128>();
  pto::Stride<16384, 16384, 16384, 128, 1> v13 = pto::Stride<16384, 16384, 16384, 128, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND> v14 = GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND>(v1 + (v11 * v5 + v11 * v6), v12, v13);
  TLOAD(v10, v14);
  Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v15 = Tile<TileType::Vec, float, 128, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v5, v5);
  TASSIGN(v15, v9);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TADDS(v15, v10, v8);
  pto::Shape<1, 1, 1, 128, 128> v16 = pto::Shape<1, 1, 1, 128, 128>();
  pto::Stride<16384, 16384, 16384, 128, 1> v17 = pto::Stride<16384, 16384, 16384, 128, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND> v18 = GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND>(v2 + (v11 * v5 + v11 * v6), v16, v17);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(v18, v15);
  #endif // __DAV_VEC__

  ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);
  return;
}

// --- Kernel entry point ---
extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {
    // Unpack tensor: x
    __gm__ Tensor* x_tensor = reinterpret_cast<__gm__ Tensor*>(args[0]);
    __gm__ float* x = reinterpret_cast<__gm__ float*>(x_tensor->buffer.addr) + x_tensor->start_offset;

    // Unpack tensor: out
    __gm__ Tensor* out_tensor = reinterpret_cast<__gm__ Tensor*>(args[1]);
    __gm__ float* out = reinterpret_cast<__gm__ float*>(out_tensor->buffer.addr) + out_tensor->start_offset;

    // Unpack scalar: alpha
    union { uint64_t u64; float val; } alpha_conv;
    alpha_conv.u64 = args[2];
    float alpha = alpha_conv.val;

    // Unpack scalar: steps
    union { uint64_t u64; int32_t val; } steps_conv;
    steps_conv.u64 = args[3];
    int32_t steps = steps_conv.val;

    // Forward to ptoas-generated function
    kernel_shift(x, out, alpha, steps);
}
