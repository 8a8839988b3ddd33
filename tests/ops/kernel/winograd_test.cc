// float32 convolutions by Winograd's algorithm, against float64 ones, which have no such algorithm: conv_test.cc compares these
// with their definition. The BUILD file runs it with oneDNN's code for several sets of instructions.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "ops/kernel/channel_blocks.h"
#include "ops/kernel/conv_volume.h"
#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

struct Images {
  int64_t batch, in_channels, out_channels, height, width, pad = 1, kernel = 3, stride = 1, dilate = 1, groups = 1;

  ConvSize size() const {
    const auto out = [this](int64_t in) { return (in + 2 * pad - dilate * (kernel - 1) - 1) / stride + 1; };
    return {batch,
            groups,
            in_channels,
            out_channels,
            {1, height, width},
            {1, out(height), out(width)},
            {1, kernel, kernel},
            {1, stride, stride},
            {1, dilate, dilate},
            {0, pad, pad}};
  }
};

// One convolution and its gradients of `type`, all of the same numbers.
struct Call {
  Call(DType type, const ConvSize& s)
      : size(s),
        x(type, Numbers(s.x_size(), 1)),
        w(type, Numbers(s.w_size(), 2)),
        dy(type, Numbers(s.y_size(), 3)),
        bias(type, Numbers(s.out_channels, 4)),
        y(type, Numbers(s.y_size(), 5)),
        dx(type, Numbers(s.x_size(), 6)),
        dw(type, Numbers(s.w_size(), 7)),
        dbias(type, Numbers(s.out_channels, 8)) {}

  absl::Status Forward(const OpContext& ctx, OpReqType req) {
    const TBlob b = bias.blob();
    return VolumeForward<cpu>(ctx, size, x.blob(), w.blob(), &b, {y.blob(), req});
  }
  absl::Status Backward(const OpContext& ctx, OpReqType req) {
    return VolumeBackward<cpu>(ctx, size, dy.blob(), x.blob(), w.blob(), {dx.blob(), req}, {dw.blob(), req}, {dbias.blob(), req});
  }

  int64_t SizeOf(Values Call::*part) const {
    return part == &Call::y    ? size.y_size()
           : part == &Call::dx ? size.x_size()
           : part == &Call::dw ? size.w_size()
                               : size.out_channels;
  }

  const ConvSize size;
  Values x, w, dy, bias, y, dx, dw, dbias;
};
constexpr Values Call::*kResults[] = {&Call::y, &Call::dx, &Call::dw, &Call::dbias};

std::vector<double> Listed(const Values& values, int64_t n) {
  std::vector<double> list(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) list[static_cast<size_t>(i)] = values[i];
  return list;
}
std::vector<double> All(const Call& call) {
  std::vector<double> all;
  for (const auto part : kResults) {
    const std::vector<double> list = Listed(call.*part, call.SizeOf(part));
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

// Pieces of one image; of two, the last of one; without padding, with odd sides and channels of no power of two; of four.
const Images kTaken[] = {{2, 64, 64, 40, 40}, {17, 64, 64, 28, 28}, {2, 80, 112, 39, 53, 0}, {33, 64, 96, 20, 21}};

// Transforms multiply by 25/64 and the like, and add up. With oneDNN's coefficients, 2e-6 of the largest result is lost for up to
// 256 channels of normal numbers, by the gradients too, where direct sums lose 3e-7, and 1e-6 for filters.
TEST(Winograd, EqualsFloat64) {
  constexpr double kTolerance = 4e-6;
  for (const Images& images : kTaken) {
    KernelContext context;
    Call exact(DType::kFloat64, images.size());
    const std::vector<double> before = All(exact);
    ASSERT_EQ(exact.Forward(context.ctx, kWriteTo), absl::OkStatus());
    ASSERT_EQ(exact.Backward(context.ctx, kWriteTo), absl::OkStatus());
    for (const OpReqType req : {kWriteTo, kAddTo}) {
      Call call(DType::kFloat32, images.size());
      ASSERT_EQ(call.Forward(context.ctx, req), absl::OkStatus());
      ASSERT_EQ(call.Backward(context.ctx, req), absl::OkStatus());
      auto begin = before.begin();
      for (const auto part : kResults) {
        std::vector<double> want = Listed(exact.*part, call.SizeOf(part));
        if (req == kAddTo) std::transform(want.begin(), want.end(), begin, want.begin(), std::plus<>());
        begin += static_cast<int64_t>(want.size());
        (call.*part).ExpectNear(want, kTolerance, "a result");
      }
    }
  }
}

// Whether the forward pass and the gradients of x and w are rounded. Direct sums are exact: Numbers() make multiples of 1/256.
std::array<bool, 3> AreRounded(const Images& images) {
  KernelContext context;
  Call call(DType::kFloat32, images.size());
  EXPECT_EQ(call.Forward(context.ctx, kWriteTo), absl::OkStatus());
  EXPECT_EQ(call.Backward(context.ctx, kWriteTo), absl::OkStatus());
  const auto is_rounded = [](const Values& values, int64_t n) {
    const std::vector<double> list = Listed(values, n);
    return std::any_of(list.begin(), list.end(), [](double value) { return value * 256 != std::floor(value * 256); });
  };
  return {is_rounded(call.y, call.size.y_size()), is_rounded(call.dx, call.size.x_size()), is_rounded(call.dw, call.size.w_size())};
}

TEST(Winograd, IsTakenByTheRule) {
  const bool has = ConvBlock() == 16;  // With AVX-512.
  for (const Images& images : kTaken) EXPECT_EQ(AreRounded(images), (std::array<bool, 3>{has, has, has})) << images.batch;
  const std::pair<const char*, Images> direct[] = {
      {"one image", {1, 64, 64, 40, 40}},
      {"few pieces of two images", {15, 64, 64, 28, 28}},
      {"few input channels", {2, 48, 64, 40, 40}},
      {"few output channels", {2, 64, 48, 40, 40}},
      {"channels beside blocks", {2, 72, 64, 40, 40}},
      {"many channels", {2, 64, 144, 40, 40}},
      {"small images", {48, 64, 64, 16, 16}},
      {"five taps", {.batch = 2, .in_channels = 64, .out_channels = 64, .height = 40, .width = 40, .pad = 2, .kernel = 5}},
      {"wide padding", {2, 64, 64, 40, 40, 2}},
      {"a stride", {.batch = 2, .in_channels = 64, .out_channels = 64, .height = 80, .width = 80, .stride = 2}},
      {"a dilation", {.batch = 2, .in_channels = 64, .out_channels = 64, .height = 42, .width = 42, .dilate = 2}},
      {"groups", {.batch = 2, .in_channels = 128, .out_channels = 128, .height = 40, .width = 40, .groups = 2}},
  };
  for (const auto& [what, images] : direct) EXPECT_EQ(AreRounded(images), (std::array<bool, 3>{})) << what;
}

// Each call makes its primitives anew, as another process would.
TEST(Winograd, HasTheSameBitsWithAnyThreads) {
  for (const Images& images : kTaken) {
    std::vector<double> first;
    for (const int threads : {1, 2, 4, 1}) {
      KernelContext context;
      Team team(threads);
      context.ctx.threads = &team;
      Call call(DType::kFloat32, images.size());
      ASSERT_EQ(call.Forward(context.ctx, kWriteTo), absl::OkStatus());
      ASSERT_EQ(call.Backward(context.ctx, kWriteTo), absl::OkStatus());
      if (first.empty()) first = All(call);
      EXPECT_EQ(All(call), first) << threads << " threads";
    }
  }
}

TEST(Winograd, HasTheSameBitsWithConstantFilters) {
  KernelContext context;
  Call plain(DType::kFloat32, kTaken[0].size()), kept(DType::kFloat32, kTaken[0].size());
  ASSERT_EQ(plain.Forward(context.ctx, kWriteTo), absl::OkStatus());
  OneConstant constant(kept.w.data());
  context.ctx.constants = &constant;
  ASSERT_EQ(kept.Forward(context.ctx, kWriteTo), absl::OkStatus());
  std::memset(kept.w.data(), 0, static_cast<size_t>(kept.size.w_size()) * sizeof(float));
  ASSERT_EQ(kept.Forward(context.ctx, kWriteTo), absl::OkStatus());
  EXPECT_EQ(Listed(kept.y, kept.size.y_size()), Listed(plain.y, plain.size.y_size()));
  // One image shares the filters, though its algorithm is the direct one.
  ConvSize one = kept.size;
  one.batch = 1;
  Call alone(DType::kFloat32, one);
  const TBlob bias = alone.bias.blob();
  ASSERT_EQ(VolumeForward<cpu>(context.ctx, one, alone.x.blob(), kept.w.blob(), &bias, {alone.y.blob(), kWriteTo}),
            absl::OkStatus());
  EXPECT_EQ(constant.forms(), 1u);
}

TEST(Winograd, HasTheSameBitsInBlocksOfChannels) {
  KernelContext context;
  Call call(DType::kFloat32, kTaken[0].size());
  const int64_t block = ConvBlock();
  const ConvSize& s = call.size;
  const std::vector<double> zeros(static_cast<size_t>(std::max(s.x_size(), s.y_size())));
  Values x(DType::kFloat32, zeros), y(DType::kFloat32, zeros), back(DType::kFloat32, zeros);
  const auto floats = [](Values& values) { return static_cast<float*>(values.data()); };
  ToBlocked(context.ctx, {s.batch * s.in_channels / block, block, s.inputs()}, floats(call.x), false, floats(x));
  ConvSize blocked = s;
  blocked.x_block = blocked.y_block = block;
  ASSERT_EQ(call.Forward(context.ctx, kWriteTo), absl::OkStatus());
  const TBlob bias = call.bias.blob();
  ASSERT_EQ(VolumeForward<cpu>(context.ctx, blocked, x.blob(), call.w.blob(), &bias, {y.blob(), kWriteTo}), absl::OkStatus());
  FromBlocked(context.ctx, {s.batch * s.out_channels / block, block, s.outputs()}, floats(y), false, floats(back));
  EXPECT_EQ(Listed(back, s.y_size()), Listed(call.y, s.y_size()));
}

class BoundedScratch final : public Scratch {
 public:
  explicit BoundedScratch(size_t bytes) : left_(bytes) {}
  absl::StatusOr<void*> Get(size_t bytes) override {
    if (bytes > left_) return absl::ResourceExhaustedError("the budget");
    left_ -= bytes;
    return heap_.Get(bytes);
  }

 private:
  HeapScratch heap_;
  size_t left_;
};

// Transforms of two threads take more than 8 MiB, which are asked for before anything is written.
TEST(Winograd, IsRefusedWithoutSpaceForTheTransform) {
  if (ConvBlock() != 16) GTEST_SKIP() << "no Winograd without AVX-512";
  KernelContext context;
  for (const bool backward : {false, true}) {
    Call call(DType::kFloat32, kTaken[0].size());
    const std::vector<double> before = All(call);
    BoundedScratch little(size_t{8} << 20);
    context.ctx.scratch = &little;
    const absl::Status status = backward ? call.Backward(context.ctx, kWriteTo) : call.Forward(context.ctx, kWriteTo);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(All(call), before);
  }
}

}  // namespace
}  // namespace gluond::ops
