// float64 convolution: the windows of one image become the columns of a matrix, and OpenBLAS multiplies. oneDNN has no
// float64. Meant to be right; it is what gradients are checked with.

#include <algorithm>

#include "engine/core/status_macros.h"
#include "ops/kernel/conv.h"
#include "ops/kernel/gemm.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {
namespace {

// Calls body(column element, input element or -1 in the padding) for every element of every window of one image's
// group. Row r of the columns is (channel, kernel row, kernel column), position p is (output row, output column).
template <class Body>
void ForEachTap(const OpContext& ctx, const ConvSize& s, const Body& body) {
  const int64_t channels = s.in_channels / s.groups;
  const int64_t positions = s.out[0] * s.out[1];
  // Taps of one channel may meet in one input element; those of different channels never do.
  Parallel(ctx, channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t ky = 0; ky < s.kernel[0]; ++ky) {
        for (int64_t kx = 0; kx < s.kernel[1]; ++kx) {
          const int64_t row = ((c * s.kernel[0] + ky) * s.kernel[1] + kx) * positions;
          for (int64_t oy = 0; oy < s.out[0]; ++oy) {
            const int64_t y = oy * s.stride[0] - s.pad[0] + ky * s.dilate[0];
            for (int64_t ox = 0; ox < s.out[1]; ++ox) {
              const int64_t x = ox * s.stride[1] - s.pad[1] + kx * s.dilate[1];
              const bool inside = y >= 0 && y < s.in[0] && x >= 0 && x < s.in[1];
              body(row + oy * s.out[1] + ox, inside ? (c * s.in[0] + y) * s.in[1] + x : -1);
            }
          }
        }
      }
    }
  });
}

// Pointers to one image's group, and the sizes of its matrices.
struct GroupSizes {
  explicit GroupSizes(const ConvSize& s)
      : x(s.x_size() / (s.batch * s.groups)),
        w(s.w_size() / s.groups),
        y(s.y_size() / (s.batch * s.groups)),
        filters(s.out_channels / s.groups),
        taps(w / filters),
        positions(s.out[0] * s.out[1]) {}
  int64_t x, w, y, filters, taps, positions;
};

}  // namespace

absl::Status ConvForwardDouble(const OpContext& ctx, const ConvSize& s, const double* x, const double* w,
                               const double* bias, bool add, double* y) {
  const GroupSizes g(s);
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(g.taps * g.positions * sizeof(double)));
  double* columns = static_cast<double*>(space);
  for (int64_t i = 0; i < s.batch * s.groups; ++i) {
    const double* image = x + i * g.x;
    ForEachTap(ctx, s, [=](int64_t column, int64_t in) { columns[column] = in < 0 ? 0 : image[in]; });
    const double* filters = w + i % s.groups * g.w;
    RETURN_IF_ERROR(Gemm<cpu>(ctx, DType::kFloat64, {g.filters, g.positions, g.taps}, filters, columns,
                              add ? kAddTo : kWriteTo, y + i * g.y));
  }
  if (bias == nullptr) return absl::OkStatus();
  return ForEach<cpu>(ctx, s.y_size(), [=, positions = g.positions, channels = s.out_channels](int64_t i) {
    y[i] += bias[i / positions % channels];
  });
}

absl::Status ConvBackwardDouble(const OpContext& ctx, const ConvSize& s, const double* dy, const double* x,
                                const double* w, ConvOut dx, ConvOut dw, ConvOut dbias) {
  const GroupSizes g(s);
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(g.taps * g.positions * sizeof(double)));
  double* columns = static_cast<double*>(space);
  double* dx_data = static_cast<double*>(dx.data);
  double* dw_data = static_cast<double*>(dw.data);
  if (dx.req == kWriteTo || dx.req == kWriteInplace) std::fill_n(dx_data, s.x_size(), 0.0);
  for (int64_t i = 0; i < s.batch * s.groups; ++i) {
    const int64_t group = i % s.groups;
    if (dx.req != kNullOp) {
      RETURN_IF_ERROR(Gemm<cpu>(ctx, DType::kFloat64,
                                {.m = g.taps, .n = g.positions, .k = g.filters, .transpose_a = true}, w + group * g.w,
                                dy + i * g.y, kWriteTo, columns));
      double* image = dx_data + i * g.x;
      ForEachTap(ctx, s, [=](int64_t column, int64_t in) {
        if (in >= 0) image[in] += columns[column];
      });
    }
    if (dw.req != kNullOp) {
      const double* image = x + i * g.x;
      ForEachTap(ctx, s, [=](int64_t column, int64_t in) { columns[column] = in < 0 ? 0 : image[in]; });
      RETURN_IF_ERROR(Gemm<cpu>(
          ctx, DType::kFloat64, {.m = g.filters, .n = g.taps, .k = g.positions, .transpose_b = true}, dy + i * g.y,
          columns, i < s.groups && dw.req != kAddTo ? kWriteTo : kAddTo, dw_data + group * g.w));
    }
  }
  if (dbias.req == kNullOp) return absl::OkStatus();
  double* db = static_cast<double*>(dbias.data);
  return ForEach<cpu>(ctx, s.out_channels, [=, add = dbias.req == kAddTo, positions = g.positions](int64_t c) {
    double sum = add ? db[c] : 0;
    for (int64_t n = 0; n < s.batch; ++n) {
      const double* row = dy + (n * s.out_channels + c) * positions;
      for (int64_t p = 0; p < positions; ++p) sum += row[p];
    }
    db[c] = sum;
  }, 1);
}

}  // namespace gluond::ops
