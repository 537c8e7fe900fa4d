// The single header of an orchestration: entry arguments, tensors, task arguments, submission, scopes, logging.
#ifndef PYPTO_PTO_ORCHESTRATION_API_H
#define PYPTO_PTO_ORCHESTRATION_API_H

// Generated orchestrations use std::min; libstdc++ has it in <array>, which parses faster than <algorithm>.
#include <array>
#ifndef __GLIBCXX__
#include <algorithm>
#endif

#include "pypto/spring_api.h"

#endif
