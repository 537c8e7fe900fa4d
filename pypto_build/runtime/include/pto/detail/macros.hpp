// Spellings of the device language that mean nothing to a host compiler.
#ifndef PTO_DETAIL_MACROS_HPP
#define PTO_DETAIL_MACROS_HPP

#ifndef __gm__
#define __gm__
#endif
#ifndef __aicore__
#define __aicore__
#endif
#ifndef AICORE
#define AICORE
#endif
#ifndef __global__
#define __global__
#endif
#ifndef __ubuf__
#define __ubuf__
#endif
#ifndef __cbuf__
#define __cbuf__
#endif
#ifndef __ca__
#define __ca__
#endif
#ifndef __cb__
#define __cb__
#endif
#ifndef __cc__
#define __cc__
#endif
#ifndef __fbuf__
#define __fbuf__
#endif
#ifndef __biasbuf__
#define __biasbuf__
#endif
#ifndef __in__
#define __in__
#endif
#ifndef __out__
#define __out__
#endif
#ifndef __tf__
#define __tf__
#endif
#ifndef __sync_alias__
#define __sync_alias__
#endif
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
// What instructions do themselves is no plain access of the kernel's; a fence is one only where a kernel says so.
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
