#include <cstdint>

extern "C" void kernel_entry(int64_t *) {
    *reinterpret_cast<volatile int *>(16) = 1;
}
