// The name simpler gives its header of entry arguments of 2026-03-24.
#ifndef PYPTO_ORCH_ARG_H_ALIAS
#define PYPTO_ORCH_ARG_H_ALIAS

#include "pypto/entry_args.h"

#endif
