// The tile instruction set on the CPU: what a generated kernel includes.
#ifndef PTO_INST_HPP
#define PTO_INST_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "detail/comm.hpp"
#include "detail/compare.hpp"
#include "detail/convert.hpp"
#include "detail/core.hpp"
#include "detail/elementwise.hpp"
#include "detail/expand.hpp"
#include "detail/index.hpp"
#include "detail/matmul.hpp"
#include "detail/memory.hpp"
#include "detail/move.hpp"
#include "detail/pad.hpp"
#include "detail/pipe.hpp"
#include "detail/reduce.hpp"
#include "detail/sort.hpp"
#include "detail/sync.hpp"

#endif
