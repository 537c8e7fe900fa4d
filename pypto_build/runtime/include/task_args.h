// The name simpler gives its header of entry arguments since 2026-03-28.
#ifndef PYPTO_TASK_ARGS_H_ALIAS
#define PYPTO_TASK_ARGS_H_ALIAS

#include "pypto/entry_args.h"

#endif
