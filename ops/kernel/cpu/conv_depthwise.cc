// Forward convolution of volumes in groups of one input channel. oneDNN generates code for such planes only; for
// volumes it makes columns, whose product with a single row takes ten times as long as this.

#include <algorithm>
#include <cstring>

#include "engine/core/status_macros.h"
#include "ops/kernel/conv.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {
namespace {

using Vector = float __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8, kBlock = 2 * kLanes;

inline Vector Load(const float* x, int64_t stride) {
  Vector v;
  if (stride == 1) {
    std::memcpy(&v, x, sizeof(v));
  } else {
    for (int64_t i = 0; i < kLanes; ++i) v[i] = x[i * stride];
  }
  return v;
}

// An input channel with its padding, and where each tap lies in it.
struct Padded {
  std::array<int64_t, 3> size;

  explicit Padded(const ConvSize& s) {
    for (int axis = 0; axis < 3; ++axis) size[axis] = s.in[axis] + 2 * s.pad[axis];
  }
  int64_t Size() const { return size[0] * size[1] * size[2]; }
  int64_t At(int64_t z, int64_t row, int64_t column) const { return (z * size[1] + row) * size[2] + column; }

  void Fill(const ConvSize& s, const float* x, float* padded) const {
    std::fill_n(padded, Size(), 0.0f);
    for (int64_t z = 0; z < s.in[0]; ++z) {
      for (int64_t row = 0; row < s.in[1]; ++row, x += s.in[2]) {
        std::copy_n(x, s.in[2], padded + At(z + s.pad[0], row + s.pad[1], s.pad[2]));
      }
    }
  }
};

// Adds all taps of kBlock outputs of a row to `sums`. The first output sees `x` through the first tap.
inline void AddTaps(const ConvSize& s, const Padded& padded, const float* x, const float* w, Vector sums[2]) {
  const int64_t stride = s.stride[2];
  Vector low = sums[0], high = sums[1];
  for (int64_t a = 0; a < s.kernel[0]; ++a) {
    for (int64_t b = 0; b < s.kernel[1]; ++b) {
      const float* from = x + padded.At(a * s.dilate[0], b * s.dilate[1], 0);
      for (int64_t c = 0; c < s.kernel[2]; ++c, from += s.dilate[2], ++w) {
        low += *w * Load(from, stride);
        high += *w * Load(from + kLanes * stride, stride);
      }
    }
  }
  sums[0] = low;
  sums[1] = high;
}

}  // namespace

bool IsDepthwiseVolume(const ConvSize& s) {
  return s.groups > 1 && s.groups == s.in_channels && !s.flat() && Padded(s).Size() / 4 <= s.inputs();
}

absl::Status ConvForwardDepthwise(const OpContext& ctx, const ConvSize& s, const float* x, const float* w, const float* bias,
                                  bool add, float* y) {
  const Padded padded(s);
  const int64_t filters = s.out_channels / s.groups, channels = s.batch * s.in_channels;
  // The last block of a row reads beyond its outputs.
  const int64_t all = channels * padded.Size() + kBlock * s.stride[2];
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(all * sizeof(float)));
  auto* const volumes = static_cast<float*>(space);
  std::fill(volumes + channels * padded.Size(), volumes + all, 0.0f);
  Parallel(ctx, channels, 1 + kGrain / padded.Size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) padded.Fill(s, x + i * s.inputs(), volumes + i * padded.Size());
  });
  Parallel(ctx, s.batch * s.out_channels, 1 + kGrain / (s.outputs() * s.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i % s.out_channels;
      const float* const volume = volumes + (i / s.out_channels * s.groups + channel / filters) * padded.Size();
      float* to = y + i * s.outputs();
      for (int64_t position = 0; position < s.outputs(); position += s.out[2], to += s.out[2]) {
        const int64_t z = position / s.out[2] / s.out[1], row = position / s.out[2] % s.out[1];
        const float* const from = volume + padded.At(z * s.stride[0], row * s.stride[1], 0);
        for (int64_t column = 0; column < s.out[2]; column += kBlock) {
          const size_t bytes = std::min(kBlock, s.out[2] - column) * sizeof(float);
          Vector sums[2] = {};
          if (add) std::memcpy(sums, to + column, bytes);
          if (bias != nullptr) sums[0] += bias[channel], sums[1] += bias[channel];
          AddTaps(s, padded, from + column * s.stride[2], w + channel * s.taps(), sums);
          std::memcpy(to + column, sums, bytes);
        }
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace gluond::ops
