// Shape, Stride and GlobalTensor: a typed, strided, five-dimensional view of global memory.
#ifndef PTO_DETAIL_GLOBAL_TENSOR_HPP
#define PTO_DETAIL_GLOBAL_TENSOR_HPP

#include <cstdint>

#include "enums.hpp"
#include "macros.hpp"

namespace pto {

enum GlobalTensorDim { DIM_0 = 0, DIM_1 = 1, DIM_2 = 2, DIM_3 = 3, DIM_4 = 4, TOTAL_DIM = 5 };

namespace detail {

// Five extents of which the negative ones (DYNAMIC) are given to the constructor: either just those, or all five. Only
// these are stored: views are made often, and each store costs time to compile.
template <int64_t... N> struct Extents {
    static_assert(sizeof...(N) == 5, "Shape and Stride take five dimensions");
    static constexpr int64_t fixed[5] = {N...};
    static constexpr int dynamic_count = (int(N < 0) + ...);

    PTO_INLINE constexpr Extents() {}
    template <class... A> PTO_INLINE constexpr Extents(A... given) {
        static_assert(sizeof...(A) == dynamic_count || sizeof...(A) == 5,
                      "Shape or Stride: give one value for each dynamic dimension, or all five");
        if constexpr (dynamic_count > 0) {
            const int64_t values[] = {int64_t(given)...};
            int next = 0;
            for (int i = 0; i < 5; ++i)
                if (fixed[i] < 0) {
                    value[next] = values[sizeof...(A) == 5 ? i : next];
                    ++next;
                }
        }
    }
    PTO_INLINE constexpr int64_t get(int i) const { return fixed[i] < 0 ? value[place[i]] : fixed[i]; }

private:
    // Number of dynamic dimensions before each.
    static constexpr int place[5] = {0, fixed[0] < 0, (fixed[0] < 0) + (fixed[1] < 0),
                                     (fixed[0] < 0) + (fixed[1] < 0) + (fixed[2] < 0),
                                     (fixed[0] < 0) + (fixed[1] < 0) + (fixed[2] < 0) + (fixed[3] < 0)};
    int64_t value[dynamic_count + int(dynamic_count == 0)] = {};
};

} // namespace detail

template <int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC, int64_t N5 = DYNAMIC>
struct Shape : detail::Extents<N1, N2, N3, N4, N5> {
    static constexpr int64_t staticShape[5] = {N1, N2, N3, N4, N5};
    using detail::Extents<N1, N2, N3, N4, N5>::Extents;
    PTO_INLINE constexpr Shape() {}
};

template <int64_t S1 = DYNAMIC, int64_t S2 = DYNAMIC, int64_t S3 = DYNAMIC, int64_t S4 = DYNAMIC, int64_t S5 = DYNAMIC>
struct Stride : detail::Extents<S1, S2, S3, S4, S5> {
    static constexpr int64_t staticStride[5] = {S1, S2, S3, S4, S5};
    using detail::Extents<S1, S2, S3, S4, S5>::Extents;
    PTO_INLINE constexpr Stride() {}
};

// Five values without template arguments are five dynamic dimensions.
template <class... A> Shape(A...) -> Shape<>;
template <class... A> Stride(A...) -> Stride<>;

template <class E, class Shape_, class Stride_, Layout Layout_ = Layout::ND> struct GlobalTensor {
    using DType = E;
    using RawDType = detail::remove_cv_t<E>;
    using Shape = Shape_;
    using Stride = Stride_;
    static constexpr Layout layout = Layout_;
    static constexpr int64_t staticShape[5] = {Shape_::fixed[0], Shape_::fixed[1], Shape_::fixed[2], Shape_::fixed[3],
                                               Shape_::fixed[4]};
    static constexpr int64_t staticStride[5] = {Stride_::fixed[0], Stride_::fixed[1], Stride_::fixed[2],
                                                Stride_::fixed[3], Stride_::fixed[4]};

    GlobalTensor() = default;
    PTO_INLINE GlobalTensor(E *pointer) : pointer_(pointer) {}
    PTO_INLINE GlobalTensor(E *pointer, const Shape_ &shape) : pointer_(pointer), shape_(shape) {}
    PTO_INLINE GlobalTensor(E *pointer, const Shape_ &shape, const Stride_ &stride)
        : pointer_(pointer), shape_(shape), stride_(stride) {}

    PTO_INLINE E *data() const { return pointer_; }
    PTO_INLINE int64_t GetShape(int dim) const { return shape_.get(dim); }
    PTO_INLINE int64_t GetStride(int dim) const { return stride_.get(dim); }
    template <int dim> int64_t GetShape() const { return shape_.get(dim); }
    template <int dim> int64_t GetStride() const { return stride_.get(dim); }
    PTO_INLINE void SetShape(const Shape_ &shape) { shape_ = shape; }
    template <class... A> void SetShape(A... values) { shape_ = Shape_(values...); }
    PTO_INLINE void SetStride(const Stride_ &stride) { stride_ = stride; }
    PTO_INLINE void SetAddr(E *pointer) { pointer_ = pointer; }

private:
    E *pointer_ = nullptr;
    Shape_ shape_;
    Stride_ stride_;
};

namespace detail {
template <class T> inline constexpr bool is_global_tensor = false;
template <class E, class Sh, class St, Layout L>
inline constexpr bool is_global_tensor<GlobalTensor<E, Sh, St, L>> = true;
} // namespace detail

} // namespace pto

#endif
