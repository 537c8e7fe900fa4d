// C ABI between a checked kernel (compiled with PYPTO_CHECK) and the runtime that records and checks what it touches.
//
// A kernel finds the table through PyptoCoreContext::check. Where in the kernel an instruction stands follows from the
// return address of the call.
#ifndef PYPTO_CHECK_ABI_H
#define PYPTO_CHECK_ABI_H

#include <stdint.h>

struct PyptoCoreContext;

enum PyptoAccessKind {
    PYPTO_READ = 1,
    PYPTO_WRITE = 2,
    PYPTO_ATOMIC = 4,   // with PYPTO_WRITE: commutes with other atomic writes
    PYPTO_CARRY = 8,    // with PYPTO_READ: a move; bytes never written are carried along, not used
    PYPTO_SCRATCH = 16, // with PYPTO_WRITE: worked in; what it leaves there means nothing
    PYPTO_PLAIN = 32,   // by C++ itself, through the core's data cache
};

// Types of elements; other types are bytes.
enum PyptoElementType {
    PYPTO_BYTES,
    PYPTO_FLOAT32,
    PYPTO_FLOAT16,
    PYPTO_BFLOAT16,
    PYPTO_SIGNED,
    PYPTO_UNSIGNED,
};

// A rectangle of a tile that an instruction reads or writes.
struct PyptoTileAccess {
    const void *base;
    uint8_t space; // PyptoSpace
    uint8_t access;
    uint8_t fractals;
    uint8_t type;       // PyptoElementType
    uint8_t inner_rows; // whether elements within a fractal lie row by row
    uint8_t row_major;  // of the fractals, or of the elements where there are none
    uint32_t element;   // bytes
    int32_t rows, cols; // of the tile
    int32_t valid_row, valid_col;
    int32_t row, col;      // first element of the rectangle
    int32_t height, width; // of the rectangle
    int32_t fractal_rows, fractal_cols;
};

// An instruction's access to a view of global memory: the part that a matrix of rows x cols covers.
struct PyptoGlobalAccess {
    const void *base;
    uint8_t access;
    uint8_t layout; // pto::Layout
    uint32_t element;
    int64_t shape[5], stride[5]; // elements
    int64_t rows, cols;
};

enum PyptoOrderKind {
    PYPTO_SET_FLAG,
    PYPTO_WAIT_FLAG,
    PYPTO_BARRIER,
    PYPTO_SIGNAL, // TWAIT and TTEST
    PYPTO_NOTIFY, // what TNOTIFY does before its signal is out
    PYPTO_FENCE,  // dsb
};

enum PyptoVariableKind {
    PYPTO_VARIABLE_SIGNED,
    PYPTO_VARIABLE_UNSIGNED,
    PYPTO_VARIABLE_REAL,
    PYPTO_VARIABLE_POINTER,
    PYPTO_VARIABLE_TILE,
    PYPTO_VARIABLE_VIEW
};

// The value of a kernel's variable; kernels for stepping are compiled to report it.
struct PyptoVariable {
    uint32_t kind;
    uint64_t bits; // of a number: as int64_t, uint64_t or double, of a pointer its address
    const struct PyptoTileAccess *tile;
    const struct PyptoGlobalAccess *view;
};

// All null-terminated names are literals of the kernel, which stays loaded.
struct PyptoCheck {
    void (*tiles)(struct PyptoCoreContext *, const char *instruction, uint32_t pipe, const struct PyptoTileAccess *,
                  uint32_t count);
    void (*global)(struct PyptoCoreContext *, const char *instruction, uint32_t pipe, const struct PyptoGlobalAccess *);
    void (*order)(struct PyptoCoreContext *, uint32_t kind, uint32_t from, uint32_t to, uint32_t id);
    void (*variable)(struct PyptoCoreContext *, const char *name, const struct PyptoVariable *);
    // dcci of the line that holds an address, or of the whole data cache where it is null.
    void (*clean)(struct PyptoCoreContext *, const void *address);
    // A read or write of C++ itself, before it happens, at the place that `code` returns to (PYPTO_WEAK).
    void (*plain)(struct PyptoCoreContext *, const void *address, uint64_t bytes, uint32_t access, void *code);
};

#endif
