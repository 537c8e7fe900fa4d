// The name simpler gives its header of entry arguments of 2026-03-26.
#ifndef PYPTO_TASK_ARG_H_ALIAS
#define PYPTO_TASK_ARG_H_ALIAS

#include "pypto/entry_args.h"

#endif
