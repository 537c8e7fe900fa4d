// The name simpler gives its header of task arguments with dependencies of their own.
#ifndef PYPTO_PTO_ARG_WITH_DEPS_H_ALIAS
#define PYPTO_PTO_ARG_WITH_DEPS_H_ALIAS

#include "pypto/task_args.h"

#endif
