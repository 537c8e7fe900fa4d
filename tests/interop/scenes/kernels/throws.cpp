#include <cstdint>

extern "C" void kernel_entry(int64_t *) {
    throw 3;
}
