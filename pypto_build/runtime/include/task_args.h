// The name simpler gives its header of entry arguments since 2026-03-28.
#include "pypto/entry_args.h"
