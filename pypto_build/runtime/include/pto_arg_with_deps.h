// The name simpler gives its header of task arguments with dependencies of their own.
#include "pypto/task_args.h"
