// The tile instruction set on the CPU: what a generated kernel includes.
#ifndef PTO_INST_HPP
#define PTO_INST_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "detail/arg_reduce.hpp"
#include "detail/arithmetic.hpp"
#include "detail/collective.hpp"
#include "detail/comm.hpp"
#include "detail/compare.hpp"
#include "detail/convert.hpp"
#include "detail/core.hpp"
#include "detail/elementwise.hpp"
#include "detail/expand.hpp"
#include "detail/fused_convert.hpp"
#include "detail/global_index.hpp"
#include "detail/index.hpp"
#include "detail/matmul.hpp"
#include "detail/memory.hpp"
#include "detail/move.hpp"
#include "detail/pad.hpp"
#include "detail/pipe.hpp"
#include "detail/quantize.hpp"
#include "detail/random.hpp"
#include "detail/rearrange.hpp"
#include "detail/reduce.hpp"
#include "detail/sort.hpp"
#include "detail/sync.hpp"
#include "detail/system.hpp"

#endif
