// float64 convolution: the windows of one image become the columns of a matrix, and OpenBLAS multiplies. oneDNN has no
// float64. It is meant to be right rather than fast, as gradients are checked with it.

#include <algorithm>

#include "engine/core/status_macros.h"
#include "ops/kernel/conv_volume.h"
#include "ops/kernel/gemm.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {
namespace {

// Calls body(column element, input element or -1 in the padding) for every element of every window of one image's
// group. Row r of the columns is (channel, tap), column p an output position.
template <class Body>
void ForEachTap(const OpContext& ctx, const ConvSize& s, const Body& body) {
  // Where output o's element k of the window lies along an axis, or -1.
  const auto at = [&](int axis, int64_t o, int64_t k) {
    const int64_t i = o * s.stride[axis] - s.pad[axis] + k * s.dilate[axis];
    return i < s.in[axis] ? std::max<int64_t>(i, -1) : -1;
  };
  // Taps of one channel may meet in one input element; those of different channels never do.
  Parallel(ctx, s.in_channels / s.groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * s.taps(); row < end * s.taps(); ++row) {
      const int64_t c = row / s.taps(), kx = row % s.kernel[2];
      const int64_t ky = row / s.kernel[2] % s.kernel[1], kz = row / (s.kernel[2] * s.kernel[1]) % s.kernel[0];
      int64_t column = row * s.outputs();
      for (int64_t oz = 0; oz < s.out[0]; ++oz) {
        const int64_t z = at(0, oz, kz);
        for (int64_t oy = 0; oy < s.out[1]; ++oy) {
          const int64_t y = at(1, oy, ky), line = ((c * s.in[0] + z) * s.in[1] + y) * s.in[2];
          for (int64_t ox = 0; ox < s.out[2]; ++ox) {
            const int64_t x = at(2, ox, kx);
            body(column++, z < 0 || y < 0 || x < 0 ? -1 : line + x);
          }
        }
      }
    }
  });
}

// The sizes of one image's group and of its matrices.
struct GroupSizes {
  explicit GroupSizes(const ConvSize& s)
      : x(s.x_size() / (s.batch * s.groups)),
        w(s.w_size() / s.groups),
        y(s.y_size() / (s.batch * s.groups)),
        filters(s.out_channels / s.groups),
        taps(w / filters),
        positions(s.outputs()) {}
  int64_t x, w, y, filters, taps, positions;
};

}  // namespace

absl::Status ConvForward(const OpContext& ctx, const ConvSize& s, const double* x, const double* w, const double* bias, bool add,
                         double* y) {
  RETURN_IF_ERROR(CheckColumns(s));
  const GroupSizes g(s);
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(g.taps * g.positions * sizeof(double)));
  double* columns = static_cast<double*>(space);
  for (int64_t i = 0; i < s.batch * s.groups; ++i) {
    const double* image = x + i * g.x;
    ForEachTap(ctx, s, [=](int64_t column, int64_t in) { columns[column] = in < 0 ? 0 : image[in]; });
    const double* filters = w + i % s.groups * g.w;
    RETURN_IF_ERROR(
        Gemm<cpu>(ctx, DType::kFloat64, {g.filters, g.positions, g.taps}, filters, columns, add ? kAddTo : kWriteTo, y + i * g.y));
  }
  if (bias == nullptr) return absl::OkStatus();
  return ForEach<cpu>(ctx, s.y_size(), [=, positions = g.positions, channels = s.out_channels](int64_t i) {
    y[i] += bias[i / positions % channels];
  });
}

absl::Status ConvBackward(const OpContext& ctx, const ConvSize& s, const double* dy, const double* x, const double* w, ConvOut dx,
                          ConvOut dw, ConvOut dbias) {
  RETURN_IF_ERROR(CheckColumns(s));
  const GroupSizes g(s);
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(g.taps * g.positions * sizeof(double)));
  double* columns = static_cast<double*>(space);
  double* dx_data = static_cast<double*>(dx.data);
  double* dw_data = static_cast<double*>(dw.data);
  if (dx.req == kWriteTo || dx.req == kWriteInplace) std::fill_n(dx_data, s.x_size(), 0.0);
  for (int64_t i = 0; i < s.batch * s.groups; ++i) {
    const int64_t group = i % s.groups;
    if (dx.req != kNullOp) {
      RETURN_IF_ERROR(Gemm<cpu>(ctx, DType::kFloat64, {.m = g.taps, .n = g.positions, .k = g.filters, .transpose_a = true},
                                w + group * g.w, dy + i * g.y, kWriteTo, columns));
      double* image = dx_data + i * g.x;
      ForEachTap(ctx, s, [=](int64_t column, int64_t in) {
        if (in >= 0) image[in] += columns[column];
      });
    }
    if (dw.req != kNullOp) {
      const double* image = x + i * g.x;
      ForEachTap(ctx, s, [=](int64_t column, int64_t in) { columns[column] = in < 0 ? 0 : image[in]; });
      RETURN_IF_ERROR(Gemm<cpu>(ctx, DType::kFloat64, {.m = g.filters, .n = g.taps, .k = g.positions, .transpose_b = true},
                                dy + i * g.y, columns, i < s.groups && dw.req != kAddTo ? kWriteTo : kAddTo,
                                dw_data + group * g.w));
    }
  }
  if (dbias.req == kNullOp) return absl::OkStatus();
  double* db = static_cast<double*>(dbias.data);
  return ForEach<cpu>(
      ctx, s.out_channels,
      [=, add = dbias.req == kAddTo, positions = g.positions](int64_t c) {
        double sum = add ? db[c] : 0;
        for (int64_t n = 0; n < s.batch; ++n) {
          const double* row = dy + (n * s.out_channels + c) * positions;
          for (int64_t p = 0; p < positions; ++p) sum += row[p];
        }
        db[c] = sum;
      },
      1);
}

}  // namespace gluond::ops
