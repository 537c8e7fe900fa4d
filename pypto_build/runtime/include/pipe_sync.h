// Draining a kernel's output pipe before it returns. Instructions complete in order here, so nothing is left to drain;
// the checked build is told that the scalar pipe waits.
#ifndef PYPTO_PIPE_SYNC_H
#define PYPTO_PIPE_SYNC_H

#include "pto/detail/core.hpp"
#include "pto/detail/sync.hpp"

template <auto... Pipes, typename... Arguments> inline void pipe_sync(Arguments...) {
#ifdef __DAV_VEC__
    set_flag(PIPE_MTE3, PIPE_S, EVENT_ID7);
    wait_flag(PIPE_MTE3, PIPE_S, EVENT_ID7);
#endif
#ifdef __DAV_CUBE__
    set_flag(PIPE_FIX, PIPE_S, EVENT_ID7);
    wait_flag(PIPE_FIX, PIPE_S, EVENT_ID7);
#endif
}

#endif
