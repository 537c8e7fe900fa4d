// Kernel Function: scale_rows
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
static __aicore__ void scale_rows(__gm__ float* v1, __gm__ float* v2, float v3) {
  const int64_t v4 = 1;
  const int64_t v5 = 256;
  const int64_t v6 = 0;
  const int64_t v7 = 1024;

  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v8 = Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v4, v5);
  TASSIGN(v8, v6);
  Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v9 = Tile<TileType::Vec, float, 1, 256, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v4, v5);
  TASSIGN(v9, v7);
  pto::Shape<1, 1, 1, 1, 256> v10 = pto::Shape<1, 1, 1, 1, 256>();
  pto::Stride<256, 256, 256, 256, 1> v11 = pto::Stride<256, 256, 256, 256, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND> v12 = GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND>(v1, v10, v11);
  TLOAD(v8, v12);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TMULS(v9, v8, v3);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND> v13 = GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<256, 256, 256, 256, 1>, pto::Layout::ND>(v2, v10, v11);
  TSTORE(v13, v9);
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

    // Unpack tensor: partial
    __gm__ ChipTensor* partial_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[1]);
    __gm__ float* partial = reinterpret_cast<__gm__ float*>(partial_tensor->buffer.addr) + partial_tensor->start_offset;

    // Unpack scalar: scale
    union { uint64_t u64; float val; } scale_conv;
    scale_conv.u64 = args[2];
    float scale = scale_conv.val;

    // Forward to ptoas-generated function
    scale_rows(x, partial, scale);
}
