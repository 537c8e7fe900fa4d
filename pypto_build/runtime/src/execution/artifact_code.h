// Calls into code of the artifact's, and the way out of them when the runtime has to end it.
//
// A fault is noticed in a call that a kernel or an orchestration makes of the runtime. The frames in between are the
// artifact's and may own strings, vectors and open scopes, so control leaves by an exception, which unwinds them. The
// compilers write unwind tables for every function unless told otherwise, and entering costs nothing. The exception
// has a type that other code cannot name. Code that catches everything goes on until its next call of the runtime,
// which throws again.
#pragma once

namespace pypto::runtime {

/// Thrown where code of the artifact's is to end; what is to be said of it has been said before.
struct CodeEnded {};

/// Calls `code`; false if it was ended.
template <typename Code> __attribute__((noinline)) bool completes(Code &code) {
    try {
        code();
        return true;
    } catch (const CodeEnded &) {
        return false;
    }
}

/// The same for code of the artifact's. What else escapes it ends the process. Nothing is unwound then, so the stack
/// that is reported is that of the place that threw: `noexcept` is found before any handler, and is a frame of its own.
template <typename Code> bool complete_artifact_code(Code code) noexcept {
    return completes(code);
}

} // namespace pypto::runtime
