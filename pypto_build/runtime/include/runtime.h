// Included by older orchestrations next to the API header; everything they use is there.
#ifndef PYPTO_RUNTIME_H
#define PYPTO_RUNTIME_H

#include "pto_orchestration_api.h"

#endif
