// Convolution and its gradients against the sum that defines them, over a table of geometries.

#include "ops/kernel/conv.h"

#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

struct Geometry {
  const char* name;
  int64_t batch, groups, in_channels, out_channels;
  std::array<int64_t, 2> in, kernel, stride, dilate, pad;
};

ConvSize SizeOf(const Geometry& g) {
  ConvSize s = {g.batch, g.groups, g.in_channels, g.out_channels, g.in, {}, g.kernel, g.stride, g.dilate, g.pad};
  for (int i = 0; i < 2; ++i)
    s.out[i] = (g.in[i] + 2 * g.pad[i] - g.dilate[i] * (g.kernel[i] - 1) - 1) / g.stride[i] + 1;
  return s;
}

// Calls body(x index, w index, y index) for every product of the convolution.
template <class Body>
void ForEachProduct(const ConvSize& s, const Body& body) {
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.out_channels; ++o)
      for (int64_t oy = 0; oy < s.out[0]; ++oy)
        for (int64_t ox = 0; ox < s.out[1]; ++ox)
          for (int64_t i = 0; i < in_group; ++i)
            for (int64_t ky = 0; ky < s.kernel[0]; ++ky)
              for (int64_t kx = 0; kx < s.kernel[1]; ++kx) {
                const int64_t y = oy * s.stride[0] - s.pad[0] + ky * s.dilate[0];
                const int64_t x = ox * s.stride[1] - s.pad[1] + kx * s.dilate[1];
                if (y < 0 || y >= s.in[0] || x < 0 || x >= s.in[1]) continue;
                const int64_t c = o / out_group * in_group + i;
                body(((n * s.in_channels + c) * s.in[0] + y) * s.in[1] + x,
                     ((o * in_group + i) * s.kernel[0] + ky) * s.kernel[1] + kx,
                     ((n * s.out_channels + o) * s.out[0] + oy) * s.out[1] + ox);
              }
}

class ConvTest : public testing::TestWithParam<Geometry> {};

TEST_P(ConvTest, ForwardEqualsItsDefinition) {
  KernelContext context;
  const ConvSize s = SizeOf(GetParam());
  const std::vector<double> x = Numbers(s.x_size(), 1), w = Numbers(s.w_size(), 2), bias = Numbers(s.out_channels, 3);
  const std::vector<double> before = Numbers(s.y_size(), 4);
  for (DType type : kFloats) {
    for (int bits = 0; bits < 4; ++bits) {
      const bool with_bias = bits & 1;
      const OpReqType req = bits & 2 ? kAddTo : kWriteTo;
      std::vector<double> want = req == kAddTo ? before : std::vector<double>(before.size());
      const int64_t positions = s.out[0] * s.out[1];
      if (with_bias) for (size_t i = 0; i < want.size(); ++i) want[i] += bias[i / positions % s.out_channels];
      ForEachProduct(s, [&](int64_t i, int64_t j, int64_t k) { want[k] += x[i] * w[j]; });
      Values x_values(type, x), w_values(type, w), bias_values(type, bias), y(type, before);
      const absl::Status status = ConvForward<cpu>(context.ctx, type, s, x_values.data(), w_values.data(),
                                                   with_bias ? bias_values.data() : nullptr, req, y.data());
      ASSERT_TRUE(status.ok()) << status;
      y.ExpectNear(want, Tolerance(type), absl::StrCat(Name(type), " bits ", bits));
    }
  }
}

TEST_P(ConvTest, BackwardEqualsItsDefinition) {
  KernelContext context;
  const ConvSize s = SizeOf(GetParam());
  const std::vector<double> x = Numbers(s.x_size(), 1), w = Numbers(s.w_size(), 2), dy = Numbers(s.y_size(), 3);
  const std::vector<double> dx_before = Numbers(s.x_size(), 4), dw_before = Numbers(s.w_size(), 5);
  const std::vector<double> db_before = Numbers(s.out_channels, 6);
  for (DType type : kFloats) {
    // Each gradient is asked for alone, all together, and added.
    for (int bits : {1, 2, 4, 7, 15}) {
      const bool add = bits & 8;
      const auto req = [&](int bit) { return !(bits & bit) ? kNullOp : add ? kAddTo : kWriteTo; };
      std::vector<double> dx = dx_before, dw = dw_before, db = db_before;
      if (req(1) == kWriteTo) std::fill(dx.begin(), dx.end(), 0);
      if (req(2) == kWriteTo) std::fill(dw.begin(), dw.end(), 0);
      if (req(4) == kWriteTo) std::fill(db.begin(), db.end(), 0);
      ForEachProduct(s, [&](int64_t i, int64_t j, int64_t k) {
        if (bits & 1) dx[i] += dy[k] * w[j];
        if (bits & 2) dw[j] += dy[k] * x[i];
      });
      const int64_t positions = s.out[0] * s.out[1];
      if (bits & 4) for (size_t k = 0; k < dy.size(); ++k) db[k / positions % s.out_channels] += dy[k];

      Values dy_values(type, dy), x_values(type, x), w_values(type, w);
      Values dx_values(type, dx_before), dw_values(type, dw_before), db_values(type, db_before);
      const absl::Status status = ConvBackward<cpu>(context.ctx, type, s, dy_values.data(), x_values.data(),
                                                    w_values.data(), {dx_values.data(), req(1)},
                                                    {dw_values.data(), req(2)}, {db_values.data(), req(4)});
      ASSERT_TRUE(status.ok()) << status;
      const std::string what = absl::StrCat(Name(type), " bits ", bits);
      dx_values.ExpectNear(dx, Tolerance(type), what + " dx");
      dw_values.ExpectNear(dw, 4 * Tolerance(type), what + " dw");
      db_values.ExpectNear(db, 4 * Tolerance(type), what + " dbias");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, ConvTest, testing::ValuesIn<Geometry>({
    {"LeNet1", 2, 1, 1, 20, {12, 12}, {5, 5}, {1, 1}, {1, 1}, {0, 0}},
    {"LeNet2", 2, 1, 20, 50, {8, 8}, {5, 5}, {1, 1}, {1, 1}, {0, 0}},
    {"ResNet", 2, 1, 16, 16, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"Strided", 2, 1, 16, 32, {9, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"OneByOne", 3, 1, 16, 8, {5, 5}, {1, 1}, {2, 2}, {1, 1}, {0, 0}},
    {"OddChannels", 2, 1, 3, 5, {7, 6}, {3, 2}, {1, 2}, {1, 1}, {1, 0}},
    {"OneOutputChannel", 2, 1, 4, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"Dilated", 1, 1, 4, 6, {11, 11}, {3, 3}, {1, 1}, {2, 3}, {2, 3}},
    {"Groups", 2, 2, 6, 4, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"Groups16", 2, 2, 32, 32, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"Depthwise", 2, 8, 8, 8, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"DepthwiseMultiplier", 1, 3, 3, 6, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"KernelBeyondInput", 1, 1, 2, 3, {2, 3}, {5, 5}, {1, 1}, {1, 1}, {2, 1}},
    {"Remainder", 1, 1, 2, 2, {6, 7}, {2, 2}, {3, 3}, {1, 1}, {0, 0}},
    {"OneDimensional", 2, 1, 4, 5, {1, 13}, {1, 4}, {1, 2}, {1, 1}, {0, 1}},
}), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gluond::ops
