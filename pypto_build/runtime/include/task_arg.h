// The name simpler gives its header of entry arguments of 2026-03-26.
#include "pypto/entry_args.h"
