// Looks through the elements of operands; the bytes of what is read are kept, since a result may lie in their place.
#include "checking/check_trap.h"
#include "base/fault.h"
#include "base/types.h"

#include <cmath>
#include <cstring>

namespace pypto::runtime {

namespace {

enum : uint32_t { kNan = 1, kInf = 2, kDenormal = 4, kSaturate = 8 };
constexpr struct {
    const char *name;
    uint32_t bit;
    const char *words;
} kKinds[] = {{"nan", kNan, "NaN"},
              {"inf", kInf, "infinity"},
              {"denormal", kDenormal, "a denormal number"},
              {"saturate", kSaturate, "a number beyond its type"}};

// The first byte of an element of the rectangle, counted from the tile's address.
int64_t offset_of(const PyptoTileAccess &a, int32_t row, int32_t col) {
    const int64_t r = a.row + row, c = a.col + col, element = a.element;
    if (!a.fractals)
        return (a.row_major ? r * a.cols + c : c * a.rows + r) * element;
    const int64_t high = a.fractal_rows, wide = a.fractal_cols;
    const int64_t inner = a.inner_rows ? r % high * wide + c % wide : c % wide * high + r % high;
    const int64_t outer = a.row_major ? r / high * high * a.cols + c / wide * high * wide
                                      : c / wide * wide * a.rows + r / high * high * wide;
    return (outer + inner) * element;
}

double value_of(const PyptoTileAccess &a, const uint8_t *at) {
    uint64_t bits = 0;
    std::memcpy(&bits, at, a.element);
    float number = 0;
    if (a.type == PYPTO_FLOAT16)
        return half_value(static_cast<uint16_t>(bits));
    if (a.type == PYPTO_FLOAT32 || a.type == PYPTO_BFLOAT16) {
        const uint32_t word = static_cast<uint32_t>(a.type == PYPTO_BFLOAT16 ? bits << 16 : bits);
        std::memcpy(&number, &word, sizeof(number));
        return number;
    }
    const int shift = 64 - 8 * static_cast<int>(a.element);
    return a.type == PYPTO_SIGNED ? static_cast<double>(static_cast<int64_t>(bits << shift) >> shift)
                                  : static_cast<double>(bits);
}

bool is_float(const PyptoTileAccess &a) {
    return a.type == PYPTO_FLOAT32 || a.type == PYPTO_FLOAT16 || a.type == PYPTO_BFLOAT16;
}

uint32_t kind_of(const PyptoTileAccess &a, double value) {
    if (std::isnan(value))
        return kNan;
    if (std::isinf(value))
        return kInf;
    const double normal = a.type == PYPTO_FLOAT16 ? 0x1p-14 : 0x1p-126;
    return value != 0 && std::fabs(value) < normal ? uint32_t{kDenormal} : 0;
}

// The extremes of an integer type, or of half: the other float types hold what fits a float.
bool holds(const PyptoTileAccess &a, double value) {
    if (!std::isfinite(value))
        return true;
    const int bits = 8 * static_cast<int>(a.element);
    if (a.type == PYPTO_FLOAT16)
        return std::fabs(value) < 65520;
    if (a.type == PYPTO_SIGNED)
        return value > -std::ldexp(1.0, bits - 1) - 1 && value < std::ldexp(1.0, bits - 1);
    return a.type != PYPTO_UNSIGNED || (value > -1 && value < std::ldexp(1.0, bits));
}

} // namespace

Trap::Trap(const std::vector<std::string> &what) {
    for (const std::string &name : what)
        for (const auto &kind : kKinds)
            if (name == kind.name)
                wanted_ |= kind.bit;
}

void Trap::before(const char *instruction, const PyptoTileAccess *operands, uint32_t count) {
    instruction_ = instruction;
    allowed_ = 0;
    read_.clear();
    written_.clear();
    before_.clear();
    for (uint32_t i = 0; i < count; ++i) {
        const PyptoTileAccess &a = operands[i];
        if (a.access & PYPTO_WRITE && !(a.access & PYPTO_SCRATCH) && a.type != PYPTO_BYTES)
            written_.push_back(a);
        if (!(a.access & PYPTO_READ) || a.type == PYPTO_BYTES)
            continue;
        std::string elements;
        for (int32_t r = 0; r < a.height; ++r)
            for (int32_t c = 0; c < a.width; ++c) {
                const auto *at = static_cast<const uint8_t *>(a.base) + offset_of(a, r, c);
                elements.append(reinterpret_cast<const char *>(at), a.element);
                if (is_float(a))
                    allowed_ |= kind_of(a, value_of(a, at));
            }
        read_.push_back(a);
        before_.push_back(std::move(elements));
    }
}

std::string Trap::operands(int32_t row, int32_t col) const {
    std::string text;
    for (size_t i = 0; i < read_.size(); ++i) {
        const PyptoTileAccess &a = read_[i];
        const int32_t r = row < a.height ? row : 0, c = col < a.width ? col : 0;
        const auto *at = reinterpret_cast<const uint8_t *>(before_[i].data()) + (int64_t{r} * a.width + c) * a.element;
        text += format("%s[%d, %d] = %.9g", i ? ", " : " of ", a.row + r, a.col + c, value_of(a, at));
    }
    return text;
}

std::string Trap::after() {
    if (read_.empty())
        return {};
    const std::vector<PyptoTileAccess> written = std::move(written_);
    written_.clear();
    for (const PyptoTileAccess &a : written)
        for (int32_t r = 0; r < a.height; ++r)
            for (int32_t c = 0; c < a.width; ++c) {
                const double value = value_of(a, static_cast<const uint8_t *>(a.base) + offset_of(a, r, c));
                uint32_t kind = is_float(a) ? kind_of(a, value) & ~allowed_ : 0;
                const PyptoTileAccess &from = read_[0];
                if (std::strcmp(instruction_, "TCVT") == 0 && r < from.height && c < from.width) {
                    const size_t at = static_cast<size_t>((int64_t{r} * from.width + c) * from.element);
                    if (!holds(a, value_of(from, reinterpret_cast<const uint8_t *>(before_[0].data()) + at)))
                        kind |= kSaturate;
                }
                for (const auto &one : kKinds)
                    if (kind & wanted_ & one.bit)
                        return format("%s makes %s: [%d, %d] = %.9g%s", instruction_, one.words, a.row + r, a.col + c,
                                      value, operands(r, c).c_str());
            }
    return {};
}

} // namespace pypto::runtime
