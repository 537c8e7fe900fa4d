// Operations on halves, on numbers of a fixed sequence; prints a digest of the bits of all results.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "pto/detail/float16.hpp"

#ifndef __clang__ // g++ 10 lacks the builtin; what it computes in constants:
#include "pto/detail/software_bit_cast.hpp"
using pto::detail::constant_bits, pto::detail::constant_float;
static_assert(constant_bits(1.5f) == 0x3fc00000u && constant_float(0x3fc00000u) == 1.5f);
static_assert(constant_bits(-0.0f) == 0x80000000u && constant_bits(-2.0f) == 0xc0000000u);
static_assert(constant_bits(1e-45f) == 1u && constant_float(1u) == 1e-45f);
static_assert(constant_bits(1.1754944e-38f) == 0x00800000u && constant_float(0x00800000u) == 1.1754944e-38f);
static_assert(constant_bits(3.4028235e38f) == 0x7f7fffffu && constant_float(0x7f7fffffu) == 3.4028235e38f);
static_assert(constant_bits(__builtin_inff()) == 0x7f800000u && constant_float(0xff800000u) == -__builtin_inff());
#endif

static uint32_t digest = 2166136261u, state = 1;

static void add(half value) {
    uint16_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fff) > 0x7c00)
        bits = 0x7e00;
    digest = (digest ^ bits) * 16777619u;
}

static half next() {
    state = state * 1664525u + 1013904223u;
    const uint16_t bits = uint16_t(state >> 16);
    half value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

int main() {
    for (int i = 0; i < 2000000; ++i) {
        const half a = next(), b = next(), c = next();
        for (const half value : {half(a + b), half(a * b), half(a / b), half((a + b) - c), half(a * b + c), half(-a)})
            add(value);
        add(a + 1);
        add(half(3) * b);
        half sum = a;
        sum += b;
        sum *= half(0.1);
        sum -= c;
        add(sum);
        add(half(float(a) + 1e-4f));
        add(half(double(a) * 1.0001));
        add(half(i));
        add(half(long(i) * 37));
        add(half(float(a) * 0.5f));
        add(half(2.0 / double(b)));
        if (a < b)
            add(c);
        if (a == c)
            add(b);
        add(a > b ? a : b);
        sum++;
        add(sum);
    }
    std::printf("%08x\n", digest);
}
