// Included by older orchestrations, next to the API header or alone; everything they use is there.
#ifndef PYPTO_RUNTIME_H
#define PYPTO_RUNTIME_H

#include "orchestration_api.h"
#include "pto_orchestration_api.h"

#include <stdio.h>
#include <string.h>

#endif
