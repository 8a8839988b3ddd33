// Walk: one index space over several tensors, each with its own strides, as broadcasting, transposing, slicing and
// reducing need it. Axes of size 1 are dropped, and neighbours that every tensor steps through as through one axis are
// merged, so that most walks have one to three axes.

#ifndef OPS_KERNEL_WALK_H_
#define OPS_KERNEL_WALK_H_

#include <cstdint>

#include "engine/core/host_device.h"
#include "engine/core/shape.h"

namespace gluond::ops {

using Strides = int64_t[Shape::kMaxRank];

// Row-major strides of a dense tensor of this shape, in elements.
inline void DenseStrides(const Shape& shape, int64_t* strides) {
  int64_t step = 1;
  for (int axis = shape.ndim() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
}

// Strides by which a dense tensor of shape `from` is read over `to`, to which it broadcasts (right-aligned, as NumPy):
// 0 along the axes that it lacks or has once.
inline void BroadcastStrides(const Shape& from, const Shape& to, int64_t* strides) {
  Strides dense;
  DenseStrides(from, dense);
  const int missing = to.ndim() - from.ndim();
  for (int axis = 0; axis < to.ndim(); ++axis) {
    strides[axis] = axis < missing || from[axis - missing] == 1 ? 0 : dense[axis - missing];
  }
}

template <int tensors>
struct Walk {
  int ndim = 0;  // 0: one element.
  int64_t size = 1;
  int64_t dim[Shape::kMaxRank];
  int64_t stride[tensors][Shape::kMaxRank];

  Walk() = default;
  // `strides[t]` are tensor t's along the axes of `dims`.
  Walk(const Shape& dims, const Strides (&strides)[tensors]) {
    for (int axis = 0; axis < dims.ndim(); ++axis) {
      int64_t step[tensors];
      for (int t = 0; t < tensors; ++t) step[t] = strides[t][axis];
      Append(dims[axis], step);
    }
  }

  // Adds an axis inside the others.
  void Append(int64_t n, const int64_t (&step)[tensors]) {
    size *= n;
    if (n == 1) return;
    bool merge = ndim > 0;
    for (int t = 0; t < tensors; ++t) merge = merge && stride[t][ndim - 1] == step[t] * n;
    const int at = merge ? ndim - 1 : ndim++;
    dim[at] = merge ? dim[at] * n : n;
    for (int t = 0; t < tensors; ++t) stride[t][at] = step[t];
  }

  // Where element i of the walk, in row-major order, lies in each tensor.
  struct Offsets {
    int64_t at[tensors];
  };
  HOST_DEVICE Offsets operator()(int64_t i) const { return At(i, ndim); }
  // The same without the innermost axis: element i of the walk's rows.
  HOST_DEVICE Offsets Row(int64_t i) const { return At(i, ndim - 1); }

  // The innermost axis; a walk of one element is one row of one.
  int64_t row_size() const { return ndim == 0 ? 1 : dim[ndim - 1]; }
  int64_t rows() const { return row_size() == 0 ? 0 : size / row_size(); }
  int64_t row_stride(int t) const { return ndim == 0 ? 1 : stride[t][ndim - 1]; }

 private:
  HOST_DEVICE Offsets At(int64_t i, int axes) const {
    Offsets offsets;
    for (int t = 0; t < tensors; ++t) offsets.at[t] = 0;
    for (int axis = axes - 1; axis >= 0; --axis) {
      int64_t k;
      if (axis == 0) {
        k = i;
      } else if (i <= 0x7fffffff && dim[axis] <= 0x7fffffff) {  // 32-bit division is several times faster.
        const uint32_t quotient = static_cast<uint32_t>(i) / static_cast<uint32_t>(dim[axis]);
        k = i - int64_t{quotient} * dim[axis];
        i = quotient;
      } else {
        const int64_t quotient = i / dim[axis];
        k = i - quotient * dim[axis];
        i = quotient;
      }
      for (int t = 0; t < tensors; ++t) offsets.at[t] += k * stride[t][axis];
    }
    return offsets;
  }
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_WALK_H_
