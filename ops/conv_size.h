// The sizes of a convolution over one to three axes, from an operator's parameters.

#ifndef OPS_CONV_SIZE_H_
#define OPS_CONV_SIZE_H_

#include "ops/kernel/conv_volume.h"
#include "ops/spatial.h"

namespace gluond::ops {

// OK for kernels over one, two or three axes.
inline absl::Status CheckKernelRank(size_t axes) {
  if (axes >= 1 && axes <= 3) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parameter 'kernel' has ", axes, " elements, expected 1, 2 or 3: one for each spatial axis"));
}

// `p` has kernel, stride, dilate and num_group; `pad` is apart, as it may be derived. x: (batch, in channels, in...),
// y: (batch, out channels, out...).
template <class P>
ConvSize VolumeOf(const P& p, const std::vector<int64_t>& pad, const Shape& x, const Shape& y) {
  ConvSize size;
  size.batch = x[0];
  size.groups = p.num_group;
  size.in_channels = x[1];
  size.out_channels = y[1];
  const int missing = 3 - static_cast<int>(p.kernel.size());
  for (int axis = 0; axis < 3; ++axis) {
    const int i = axis - missing;
    size.in[axis] = i < 0 ? 1 : x[2 + i];
    size.out[axis] = i < 0 ? 1 : y[2 + i];
    size.kernel[axis] = i < 0 ? 1 : p.kernel[i];
    size.stride[axis] = i < 0 ? 1 : p.stride[i];
    size.dilate[axis] = i < 0 ? 1 : p.dilate[i];
    size.pad[axis] = i < 0 ? 0 : pad[i];
  }
  return size;
}

}  // namespace gluond::ops

#endif  // OPS_CONV_SIZE_H_
