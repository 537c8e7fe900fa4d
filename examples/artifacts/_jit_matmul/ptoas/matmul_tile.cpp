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

__global__ AICORE void matmul_tile(__gm__ half* v1, __gm__ half* v2, __gm__ float* v3) {
  const int64_t v4 = 128;
  const int64_t v5 = 256;
  const int64_t v6 = 1;
  const int64_t v7 = 0;
  const int64_t v9 = 0;
  const int64_t v13 = 65536;
  using T = float;

  #if defined(__DAV_CUBE__)
  Tile<TileType::Mat, half, 128, 256, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null> v8 = Tile<TileType::Mat, half, 128, 256, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null>(v4, v5);
  TASSIGN(v8, v7);
  pto::Shape<1, 1, 1, 128, 256> v10 = pto::Shape<1, 1, 1, 128, 256>();
  pto::Stride<32768, 32768, 32768, 256, 1> v11 = pto::Stride<32768, 32768, 32768, 256, 1>();
  GlobalTensor<half, pto::Shape<1, 1, 1, 128, 256>, pto::Stride<32768, 32768, 32768, 256, 1>, pto::Layout::ND> v12 = GlobalTensor<half, pto::Shape<1, 1, 1, 128, 256>, pto::Stride<32768, 32768, 32768, 256, 1>, pto::Layout::ND>(v1 + (v9 * v5 + v9 * v6), v10, v11);
  TLOAD(v8, v12);
  Tile<TileType::Mat, half, 256, 128, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null> v14 = Tile<TileType::Mat, half, 256, 128, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null>(v5, v4);
  TASSIGN(v14, v13);
  pto::Shape<1, 1, 1, 256, 128> v15 = pto::Shape<1, 1, 1, 256, 128>();
  pto::Stride<32768, 32768, 32768, 128, 1> v16 = pto::Stride<32768, 32768, 32768, 128, 1>();
  GlobalTensor<half, pto::Shape<1, 1, 1, 256, 128>, pto::Stride<32768, 32768, 32768, 128, 1>, pto::Layout::ND> v17 = GlobalTensor<half, pto::Shape<1, 1, 1, 256, 128>, pto::Stride<32768, 32768, 32768, 128, 1>, pto::Layout::ND>(v2 + (v9 * v4 + v9 * v6), v15, v16);
  TLOAD(v14, v17);
  Tile<TileType::Acc, float, 128, 128, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 1024, PadValue::Null, CompactMode::Null> v18 = Tile<TileType::Acc, float, 128, 128, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 1024, PadValue::Null, CompactMode::Null>(v4, v4);
  TASSIGN(v18, v7);
  for (int64_t v19 = v9; v19 < v5; v19 += v4) {
    Tile<TileType::Left, half, 128, 128, BLayout::RowMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null> v20 = Tile<TileType::Left, half, 128, 128, BLayout::RowMajor, -1, -1, SLayout::RowMajor, 512, PadValue::Null, CompactMode::Null>(v4, v4);
    TASSIGN(v20, v7);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TEXTRACT(v20, v8, v9, v19);
    Tile<TileType::Right, half, 128, 128, BLayout::RowMajor, -1, -1, SLayout::ColMajor, 512, PadValue::Null, CompactMode::Null> v21 = Tile<TileType::Right, half, 128, 128, BLayout::RowMajor, -1, -1, SLayout::ColMajor, 512, PadValue::Null, CompactMode::Null>(v4, v4);
    TASSIGN(v21, v7);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TEXTRACT(v21, v14, v19, v9);
    bool v22 = v19 == v9;
    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    if (v22) {
      TMATMUL(v18, v20, v21);
    } else {
      TMATMUL_ACC(v18, v18, v20, v21);
    }
    pipe_barrier(PIPE_ALL);
  }
  pto::Shape<1, 1, 1, 128, 128> v23 = pto::Shape<1, 1, 1, 128, 128>();
  pto::Stride<16384, 16384, 16384, 128, 1> v24 = pto::Stride<16384, 16384, 16384, 128, 1>();
  GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND> v25 = GlobalTensor<float, pto::Shape<1, 1, 1, 128, 128>, pto::Stride<16384, 16384, 16384, 128, 1>, pto::Layout::ND>(v3 + (v9 * v4 + v9 * v6), v23, v24);
  set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
  wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
  TSTORE(v25, v18);
  #endif // __DAV_CUBE__

  ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);
  return;
}
