// Spellings of the device language that mean nothing to a host compiler. Kernels may define them as nothing, too.
#ifndef PTO_DETAIL_MACROS_HPP
#define PTO_DETAIL_MACROS_HPP

#define __gm__
#define __aicore__
#define AICORE
#define __global__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __biasbuf__
#define __in__
#define __out__
#define __tf__
#define __sync_alias__
#define __cce_get_tile_ptr(x) x

// A kernel compiled for neither core type sees both halves of the code.
#if !defined(__DAV_VEC__) && !defined(__DAV_CUBE__)
#define __DAV_VEC__
#define __DAV_CUBE__
#endif

// A debugger finds no line of the kernel in what is inlined.
#ifdef PYPTO_DEBUG
#define PTO_INLINE inline
#define PTO_LAMBDA_INLINE
#else
#define PTO_INLINE inline __attribute__((always_inline))
#define PTO_LAMBDA_INLINE __attribute__((always_inline))
#endif
#define PTO_INTERNAL PTO_INLINE
#define PTO_INST PTO_INLINE
// Loops are compiled once for an element type and called from every instruction of that type: this is what keeps the
// compile time of a kernel with a thousand instructions low.
#ifndef PYPTO_WEAK
#define PTO_NOINLINE __attribute__((noinline, visibility("hidden")))
#define PTO_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#else
// Accesses of instructions are no plain accesses of the kernel; a fence is one only where a kernel has it.
#define PTO_NOINLINE __attribute__((noinline, visibility("hidden"), no_sanitize("thread")))
#define PTO_FENCE() ((void)0)
#endif

// A loop over registers, to be unrolled whole: at -O2 g++ leaves even short ones rolled, and registers in memory.
#ifdef __clang__
#define PTO_UNROLL _Pragma("unroll")
#else
#define PTO_UNROLL _Pragma("GCC unroll 16")
#endif

// 2: Ascend 910B/910C ("a2a3"), 5: Ascend 950 ("a5").
#ifndef PYPTO_ARCH
#define PYPTO_ARCH 2
#endif

#endif
