// Convolution and its gradients against the sum that defines them, over a table of geometries.

#include "ops/kernel/conv_volume.h"

#include <cstring>
#include <map>

#include "engine/core/status_macros.h"
#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

struct Geometry {
  const char* name;
  int64_t batch, groups, in_channels, out_channels;
  std::array<int64_t, 3> in, kernel, stride, dilate, pad;
};

ConvSize SizeOf(const Geometry& g) {
  ConvSize s = {g.batch, g.groups, g.in_channels, g.out_channels, g.in, {}, g.kernel, g.stride, g.dilate, g.pad};
  for (int i = 0; i < 3; ++i) s.out[i] = (g.in[i] + 2 * g.pad[i] - g.dilate[i] * (g.kernel[i] - 1) - 1) / g.stride[i] + 1;
  return s;
}

// Calls body(x index, w index, y index) for every product of the convolution.
template <class Body>
void ForEachProduct(const ConvSize& s, const Body& body) {
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  const auto split = [](int64_t i, const std::array<int64_t, 3>& sizes) {
    return std::array<int64_t, 3>{i / (sizes[1] * sizes[2]), i / sizes[2] % sizes[1], i % sizes[2]};
  };
  for (int64_t plane = 0; plane < s.batch * s.out_channels; ++plane)
    for (int64_t position = 0; position < s.outputs(); ++position)
      for (int64_t tap = 0; tap < s.taps(); ++tap) {
        const std::array<int64_t, 3> at = split(position, s.out), k = split(tap, s.kernel);
        int64_t offset = 0;
        bool inside = true;
        for (int axis = 0; axis < 3; ++axis) {
          const int64_t p = at[axis] * s.stride[axis] - s.pad[axis] + k[axis] * s.dilate[axis];
          inside = inside && p >= 0 && p < s.in[axis];
          offset = offset * s.in[axis] + p;
        }
        const int64_t n = plane / s.out_channels, o = plane % s.out_channels;
        for (int64_t i = 0; i < in_group && inside; ++i) {
          const int64_t channel = n * s.in_channels + o / out_group * in_group + i;
          body(channel * s.inputs() + offset, (o * in_group + i) * s.taps() + tap, plane * s.outputs() + position);
        }
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
      const int64_t positions = s.outputs();
      if (with_bias)
        for (size_t i = 0; i < want.size(); ++i) want[i] += bias[i / positions % s.out_channels];
      ForEachProduct(s, [&](int64_t i, int64_t j, int64_t k) { want[k] += x[i] * w[j]; });
      Values x_values(type, x), w_values(type, w), bias_values(type, bias), y(type, before);
      const TBlob bias_blob = bias_values.blob();
      const absl::Status status =
          VolumeForward<cpu>(context.ctx, s, x_values.blob(), w_values.blob(), with_bias ? &bias_blob : nullptr, {y.blob(), req});
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
      const int64_t positions = s.outputs();
      if (bits & 4)
        for (size_t k = 0; k < dy.size(); ++k) db[k / positions % s.out_channels] += dy[k];

      Values dy_values(type, dy), x_values(type, x), w_values(type, w);
      Values dx_values(type, dx_before), dw_values(type, dw_before), db_values(type, db_before);
      const absl::Status status =
          VolumeBackward<cpu>(context.ctx, s, dy_values.blob(), x_values.blob(), w_values.blob(), {dx_values.blob(), req(1)},
                              {dw_values.blob(), req(2)}, {db_values.blob(), req(4)});
      ASSERT_TRUE(status.ok()) << status;
      const std::string what = absl::StrCat(Name(type), " bits ", bits);
      dx_values.ExpectNear(dx, Tolerance(type), what + " dx");
      dw_values.ExpectNear(dw, 4 * Tolerance(type), what + " dw");
      db_values.ExpectNear(db, 4 * Tolerance(type), what + " dbias");
    }
  }
}

TEST_P(ConvTest, ConstantFiltersGiveTheSameBits) {
  KernelContext context;
  const ConvSize s = SizeOf(GetParam());
  Values x(DType::kFloat32, Numbers(s.x_size(), 1)), w(DType::kFloat32, Numbers(s.w_size(), 2));
  Values dy(DType::kFloat32, Numbers(s.y_size(), 3));
  OneConstant constant(w.data());
  const auto run = [&](Constants* constants, bool backward) {
    context.ctx.constants = constants;
    Values result(DType::kFloat32, std::vector<double>(static_cast<size_t>(backward ? s.x_size() : s.y_size())));
    const Target to = {result.blob(), kWriteTo}, none = {result.blob(), kNullOp};
    EXPECT_EQ(backward ? VolumeBackward<cpu>(context.ctx, s, dy.blob(), x.blob(), w.blob(), to, none, none)
                       : VolumeForward<cpu>(context.ctx, s, x.blob(), w.blob(), nullptr, to),
              absl::OkStatus());
    std::vector<double> values;
    for (int64_t i = 0; i < (backward ? s.x_size() : s.y_size()); ++i) values.push_back(result[i]);
    return values;
  };
  for (const bool backward : {false, true}) {
    const size_t before = constant.forms();
    const std::vector<double> want = run(nullptr, backward);
    EXPECT_EQ(run(&constant, backward), want);
    if (constant.forms() == before) continue;  // They lie as the kernel wants them.
    const Values filters = w;
    std::memset(w.data(), 0, static_cast<size_t>(s.w_size()) * sizeof(float));
    EXPECT_EQ(run(&constant, backward), want) << "they were read again";
    std::memcpy(w.data(), filters.data(), static_cast<size_t>(s.w_size()) * sizeof(float));
  }
}

TEST(ConvFilters, OneImageAndManyShareTheFilters) {
  KernelContext context;
  const int64_t channels = 64;
  Values w(DType::kFloat32, Numbers(channels * channels * 9, 2));
  OneConstant constant(w.data());
  context.ctx.constants = &constant;
  for (const int64_t batch : {1, 4, 32}) {
    const ConvSize s = SizeOf({"", batch, 1, channels, channels, {1, 14, 14}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}});
    Values x(DType::kFloat32, Numbers(s.x_size(), 1)), y(DType::kFloat32, Numbers(s.y_size(), 1));
    EXPECT_EQ(VolumeForward<cpu>(context.ctx, s, x.blob(), w.blob(), nullptr, {y.blob(), kWriteTo}), absl::OkStatus());
  }
  EXPECT_EQ(constant.forms(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Geometries, ConvTest,
    testing::ValuesIn<Geometry>({
        {"LeNet1", 2, 1, 1, 20, {1, 12, 12}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
        {"LeNet2", 2, 1, 20, 50, {1, 8, 8}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
        {"ResNet", 2, 1, 16, 16, {1, 8, 8}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"Strided", 2, 1, 16, 32, {1, 9, 9}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}},
        {"OneByOne", 3, 1, 16, 8, {1, 5, 5}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}},
        {"OddChannels", 2, 1, 3, 5, {1, 7, 6}, {1, 3, 2}, {1, 1, 2}, {1, 1, 1}, {0, 1, 0}},
        {"OneOutputChannel", 2, 1, 4, 1, {1, 6, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"Dilated", 1, 1, 4, 6, {1, 11, 11}, {1, 3, 3}, {1, 1, 1}, {1, 2, 3}, {0, 2, 3}},
        {"Groups", 2, 2, 6, 4, {1, 6, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"Groups16", 2, 2, 32, 32, {1, 5, 5}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"Depthwise", 2, 8, 8, 8, {1, 6, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"DepthwiseMultiplier", 1, 3, 3, 6, {1, 6, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"KernelBeyondInput", 1, 1, 2, 3, {1, 2, 3}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 1}},
        {"Remainder", 1, 1, 2, 2, {1, 6, 7}, {1, 2, 2}, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}},
        {"OneDimensional", 2, 1, 4, 5, {1, 1, 13}, {1, 1, 4}, {1, 1, 2}, {1, 1, 1}, {0, 0, 1}},
        {"OneDimensionalDilated", 2, 1, 16, 24, {1, 1, 19}, {1, 1, 3}, {1, 1, 1}, {1, 1, 4}, {0, 0, 4}},
        {"OneDimensionalDepthwise", 2, 16, 16, 16, {1, 1, 21}, {1, 1, 9}, {1, 1, 1}, {1, 1, 1}, {0, 0, 4}},
        {"OneDimensionalOfOneChannel", 3, 1, 1, 8, {1, 1, 20}, {1, 1, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1}},
        {"OneElement", 2, 1, 3, 4, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
        {"DepthwiseStrided", 2, 16, 16, 16, {1, 9, 9}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}},
        {"Doubling", 2, 1, 16, 32, {1, 10, 12}, {1, 4, 4}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}},
        {"DoublingOddly", 1, 1, 5, 3, {1, 8, 9}, {1, 3, 4}, {1, 2, 2}, {1, 1, 1}, {0, 1, 0}},
        {"DoublingGroups", 2, 2, 8, 12, {1, 6, 8}, {1, 4, 2}, {1, 2, 2}, {1, 1, 1}, {0, 1, 0}},
        {"DoublingOneAxis", 2, 1, 8, 8, {1, 7, 8}, {1, 3, 4}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1}},
        {"DoublingOneAxisDilated", 1, 1, 4, 4, {1, 11, 8}, {1, 3, 4}, {1, 1, 2}, {1, 3, 1}, {0, 2, 1}},
        {"Tripling", 1, 1, 8, 8, {1, 11, 13}, {1, 5, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 2}},
        {"StridesApart", 1, 1, 4, 4, {1, 9, 12}, {1, 3, 7}, {1, 2, 4}, {1, 1, 1}, {0, 1, 3}},
        {"StridedUnderPadding", 2, 1, 3, 2, {1, 4, 5}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 7, 5}},
        {"SmallGroups", 2, 8, 32, 32, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"Dilated16", 1, 1, 16, 16, {1, 9, 9}, {1, 3, 3}, {1, 1, 1}, {1, 2, 2}, {0, 2, 2}},
        // These are cut into pieces, the last one smaller: by images, channels or groups, and filters by output channels.
        {"CutImagesOfManyChannels", 4, 1, 300, 1000, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
        {"CutImages", 7, 1, 8, 16, {1, 21, 20}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"CutChannels", 1, 1, 40, 100, {1, 14, 15}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"CutFilters", 2, 1, 72, 136, {1, 6, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"CutGroups", 2, 5, 80, 80, {1, 7, 7}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}},
        {"CutDepthwise", 1, 70, 70, 70, {1, 30, 31}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"VolumeOfOneChannel", 2, 1, 1, 16, {4, 6, 7}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        {"Volume", 1, 1, 16, 24, {3, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        {"VolumeOddChannels", 2, 1, 3, 5, {4, 5, 6}, {2, 3, 2}, {1, 1, 2}, {1, 1, 1}, {0, 1, 0}},
        {"VolumeStrided", 1, 1, 16, 16, {5, 7, 8}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}},
        {"VolumeDoubling", 2, 1, 8, 16, {4, 6, 6}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}},
        {"VolumeDoublingGroups", 1, 2, 4, 6, {4, 7, 6}, {4, 3, 4}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}},
        {"VolumeHalved", 1, 2, 4, 4, {2, 6, 7}, {2, 3, 3}, {2, 2, 1}, {1, 1, 1}, {0, 1, 1}},
        {"VolumeDilated", 1, 1, 8, 8, {6, 7, 8}, {3, 3, 2}, {1, 1, 1}, {2, 1, 3}, {2, 1, 3}},
        {"VolumeGroups", 1, 2, 16, 32, {3, 4, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        {"VolumeDepthwise", 2, 8, 8, 16, {4, 4, 5}, {3, 2, 3}, {1, 1, 1}, {1, 1, 1}, {1, 0, 1}},
        {"VolumeDepthwiseStridedAndDilated", 1, 3, 3, 3, {7, 8, 21}, {3, 3, 3}, {2, 1, 2}, {1, 2, 3}, {1, 2, 3}},
        {"VolumeDepthwiseBeyondInput", 2, 2, 2, 2, {2, 1, 3}, {2, 3, 5}, {1, 1, 1}, {1, 1, 1}, {1, 2, 2}},
        {"VolumeDepthwiseMostlyPadding", 1, 2, 2, 2, {1, 2, 2}, {3, 3, 3}, {1, 1, 1}, {3, 3, 3}, {4, 3, 3}},
        {"VolumeDepthwiseWide", 1, 2, 2, 2, {2, 2, 40}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 0}},
        {"VolumeDepthwiseOfFlatWindows", 1, 4, 4, 4, {2, 5, 9}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"VolumeOneByOne", 2, 1, 16, 8, {3, 4, 4}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
        {"VolumeOneOutputChannel", 2, 1, 8, 1, {3, 4, 4}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
        {"VolumeOfFlatWindows", 2, 1, 8, 8, {3, 5, 5}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
        {"VolumeDeepOnly", 2, 1, 8, 8, {6, 1, 1}, {3, 1, 1}, {2, 1, 1}, {1, 1, 1}, {1, 0, 0}},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gluond::ops
