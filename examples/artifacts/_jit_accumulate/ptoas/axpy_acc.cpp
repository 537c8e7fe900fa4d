#include "pto/pto-inst.hpp"
using namespace pto;

enum class PTOAutoSyncTailMode : int {
  kBarrierAll = 0,
};

static AICORE inline void ptoas_auto_sync_tail(PTOAutoSyncTailMode mode) {
  if (mode == PTOAutoSyncTailMode::kBarrierAll) {
    pipe_barrier(PIPE_ALL);
  }
}

__global__ AICORE void axpy_acc(__gm__ float* v1, __gm__ float* v2, float v3) {
  const int64_t v4 = 128;
  const int64_t v5 = 1;
  const int64_t v6 = 0;
  const int64_t v7 = 64;
  const int64_t v9 = 0;
  const int64_t v14 = 32768;
  using T = float;

  #if defined(__DAV_VEC__)
  set_mask_norm();
  set_vector_mask(-1, -1);
  for (int64_t v8 = v6; v8 < v4; v8 += v7) {
    Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v10 = Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v4);
    TASSIGN(v10, v9);
    pto::Shape<1, 1, 1, 64, 128> v11 = pto::Shape<1, 1, 1, 64, 128>();
    pto::Stride<8192, 8192, 8192, 128, 1> v12 = pto::Stride<8192, 8192, 8192, 128, 1>();
    GlobalTensor<float, pto::Shape<1, 1, 1, 64, 128>, pto::Stride<8192, 8192, 8192, 128, 1>, pto::Layout::ND> v13 = GlobalTensor<float, pto::Shape<1, 1, 1, 64, 128>, pto::Stride<8192, 8192, 8192, 128, 1>, pto::Layout::ND>(v1 + (v8 * v4 + v6 * v5), v11, v12);
    TLOAD(v10, v13);
    Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v15 = Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v4);
    TASSIGN(v15, v14);
    pto::Shape<1, 1, 1, 64, 128> v16 = pto::Shape<1, 1, 1, 64, 128>();
    pto::Stride<8192, 8192, 8192, 128, 1> v17 = pto::Stride<8192, 8192, 8192, 128, 1>();
    GlobalTensor<float, pto::Shape<1, 1, 1, 64, 128>, pto::Stride<8192, 8192, 8192, 128, 1>, pto::Layout::ND> v18 = GlobalTensor<float, pto::Shape<1, 1, 1, 64, 128>, pto::Stride<8192, 8192, 8192, 128, 1>, pto::Layout::ND>(v2 + (v8 * v4 + v6 * v5), v16, v17);
    TLOAD(v15, v18);
    Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v19 = Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v4);
    TASSIGN(v19, v9);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TMULS(v19, v10, v3);
    Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null> v20 = Tile<TileType::Vec, float, 64, 128, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, CompactMode::Null>(v7, v4);
    TASSIGN(v20, v14);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    pipe_barrier(PIPE_V);
    TADD(v20, v15, v19);
    pto::Shape<1, 1, 1, 64, 128> v21 = pto::Shape<1, 1, 1, 64, 128>();
    pto::Stride<8192, 8192, 8192, 128, 1> v22 = pto::Stride<8192, 8192, 8192, 128, 1>();
    GlobalTensor<float, pto::Shape<1, 1, 1, 64, 128>, pto::Stride<8192, 8192, 8192, 128, 1>, pto::Layout::ND> v23 = GlobalTensor<float, pto::Shape<1, 1, 1, 64, 128>, pto::Stride<8192, 8192, 8192, 128, 1>, pto::Layout::ND>(v2 + (v8 * v4 + v6 * v5), v21, v22);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(v23, v20);
    pipe_barrier(PIPE_ALL);
  }
  #endif // __DAV_VEC__

  ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);
  return;
}
