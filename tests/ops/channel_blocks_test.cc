// Images in blocks of channels: _blocked_Convolution and _blocked_Pooling make of them what Convolution and Pooling make of the
// images, over many geometries, whatever becomes of the output.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::channel_blocks {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const Covers kCovers = {"_blocked_Convolution", "_blocked_Pooling"};

OP_CASES(ChannelBlocks,
         {
             OpCase{"GoInto",
                    "_to_blocked",
                    {{{1, 4, 1, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}},
                    {{"block", "2"}},
                    {{{1, 2, 1, 3, 2}, {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}}}}
                 .WithoutGradient(),
             OpCase{"ComeOut",
                    "_from_blocked",
                    {{{1, 2, 1, 3, 2}, {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}}},
                    {},
                    {{{1, 4, 1, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}}}
                 .WithoutGradient(),
             OpCase{"OfOneElementGoInto", "_to_blocked", {{{1, 1, 1, 1}, {7}}}, {{"block", "1"}}, {{{1, 1, 1, 1, 1}, {7}}}}
                 .WithoutGradient(),
             OpCase{"OfAnEmptyBatchGoInto", "_to_blocked", {{{0, 8, 2, 2}, {}}}, {{"block", "8"}}, {{{0, 1, 2, 2, 8}, {}}}}
                 .WithoutGradient(),
             OpCase{"OfAnEmptyBatchComeOut", "_from_blocked", {{{0, 1, 2, 2, 8}, {}}}, {}, {{{0, 8, 2, 2}, {}}}}.WithoutGradient(),
         });

Numbers Varied(const Shape& shape, int64_t step = 7) {
  Numbers n = {shape, {}};
  for (int64_t i = 0; i < shape.Size(); ++i) n.values.push_back(static_cast<double>(i * step % 31 - 15) / 8);
  return n;
}

NodeEntry ToBlocked(const NodeEntry& x, int64_t block) {
  return MakeNode("_to_blocked", "to", {x}, {{"block", absl::StrCat(block)}});
}
NodeEntry FromBlocked(const NodeEntry& x) { return MakeNode("_from_blocked", "from", {x}); }

using Variables = std::map<std::string, HostTensor>;

std::vector<double> ValuesOf(const NodeEntry& y, const Variables& variables) {
  const absl::StatusOr<std::vector<HostTensor>> values = OneByOne(/*is_train=*/false).Evaluate({y}, variables);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? (*values)[0].values() : std::vector<double>();
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << "element " << i;
    } else {
      ASSERT_NEAR(got[i], wanted[i], 1e-4 * (1 + std::abs(wanted[i]))) << "element " << i;
    }
  }
}

// `blocked` makes `wanted`, in blocks, of the variables, and keeps to every OpReqType.
void ExpectInBlocks(const NodeEntry& blocked, const NodeEntry& wanted, const Variables& variables) {
  if (TestDevice().type != DeviceType::kCpu) GTEST_SKIP() << "of a CPU only";
  ExpectNear(ValuesOf(FromBlocked(blocked), variables), ValuesOf(wanted, variables));
  const std::vector<double> alone = ValuesOf(blocked, variables);
  std::vector<HostTensor> inputs;
  for (const NodeEntry& input : blocked.node->inputs) {
    inputs.push_back((*OneByOne(/*is_train=*/false).Evaluate({input}, variables))[0]);
  }
  for (const auto& [req, fill] : {std::pair(kNullOp, 3.0), std::pair(kAddTo, 3.0), std::pair(kWriteTo, 0.0)}) {
    const absl::StatusOr<std::vector<HostTensor>> outputs =
        OneByOne(/*is_train=*/false).Call(*blocked.node, &inputs, {.req = req, .fill = fill});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    std::vector<double> expected = alone;
    for (double& value : expected) value = req == kNullOp ? fill : value + fill;
    ExpectNear((*outputs)[0].values(), expected);
  }
}

struct Convolved {
  Shape x;
  int64_t filters;
  AttrDict attrs;
};

TEST(ChannelBlocksTest, ConvolutionsMakeTheSameOfThem) {
  const std::vector<Convolved> cases = {
      {{1, 16, 5, 4}, 16, {{"kernel", "(1, 1)"}}},
      {{3, 32, 6, 5}, 48, {{"kernel", "(3, 2)"}, {"pad", "(1, 0)"}, {"stride", "(2, 1)"}}},
      {{2, 16, 7, 9}, 32, {{"kernel", "(3, 3)"}, {"pad", "(2, 2)"}, {"dilate", "(2, 2)"}, {"no_bias", "True"}}},
      {{1, 160, 9, 9}, 320, {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}}},  // In pieces of output channels.
      {{8, 64, 12, 12}, 64, {{"kernel", "(3, 3)"}}},                     // In pieces of images.
      {{1, 3, 9, 9}, 16, {{"kernel", "(5, 5)"}, {"stride", "(2, 2)"}}},  // Few channels, as they are.
      {{2, 1, 4, 4}, 32, {{"kernel", "(3, 3)"}}},
      {{2, 20, 4, 4}, 32, {{"kernel", "(3, 3)"}}},  // Channels that fill no block, as they are.
      {{2, 32, 6, 6}, 32, {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_group", "32"}}},
      {{1, 512, 20, 20}, 512, {{"kernel", "(3, 3)"}, {"num_group", "512"}}},  // In pieces of groups.
      {{1, 16, 1, 1}, 16, {{"kernel", "(1, 1)"}}},
      {{0, 16, 3, 3}, 16, {{"kernel", "(2, 2)"}}},
  };
  for (const Convolved& c : cases) {
    for (const int64_t block : {8, 16}) {
      SCOPED_TRACE(absl::StrCat(c.x.ToString(), " to ", c.filters, " in blocks of ", block));
      AttrDict attrs = c.attrs;
      attrs["num_filter"] = absl::StrCat(c.filters);
      const int64_t groups = attrs.contains("num_group") ? c.filters : 1;
      Shape w = {c.filters, c.x[1] / groups};
      for (const char digit : attrs["kernel"]) {
        if (digit >= '0' && digit <= '9') w.Append(digit - '0');
      }
      Variables variables = {{"x", HostTensor::Of(Varied(c.x), DType::kFloat32)},
                             {"w", HostTensor::Of(Varied(w, 11), DType::kFloat32)}};
      std::vector<NodeEntry> inputs = {MakeVariable("x"), MakeVariable("w")};
      if (!attrs.contains("no_bias")) {
        variables["b"] = HostTensor::Of(Varied({c.filters}, 5), DType::kFloat32);
        inputs.push_back(MakeVariable("b"));
      }
      const NodeEntry wanted = MakeNode("Convolution", "plain", inputs, attrs);
      if (c.x[1] % block == 0) inputs[0] = ToBlocked(inputs[0], block);
      attrs["block"] = absl::StrCat(block);
      ExpectInBlocks(MakeNode("_blocked_Convolution", "blocked", inputs, attrs), wanted, variables);
    }
  }
}

TEST(ChannelBlocksTest, PoolingsMakeTheSameOfThem) {
  const std::vector<std::pair<Shape, AttrDict>> cases = {
      {{1, 16, 4, 6}, {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}}},
      {{2, 32, 7, 5}, {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}}},
      {{2, 16, 7, 5}, {{"kernel", "(3, 2)"}, {"stride", "(3, 3)"}, {"pad", "(1, 1)"}, {"pooling_convention", "full"}}},
      {{3, 16, 6, 6}, {{"kernel", "(3, 3)"}, {"pad", "(2, 2)"}, {"pool_type", "avg"}}},
      {{3, 16, 6, 6}, {{"kernel", "(3, 3)"}, {"pad", "(2, 2)"}, {"pool_type", "avg"}, {"count_include_pad", "False"}}},
      {{1, 16, 5, 5}, {{"kernel", "(2, 2)"}, {"stride", "(4, 4)"}, {"pool_type", "sum"}, {"pooling_convention", "full"}}},
      {{2, 48, 7, 7}, {{"global_pool", "True"}, {"pool_type", "avg"}}},
      {{2, 16, 3, 4}, {{"global_pool", "True"}}},
      {{1, 16, 1, 1}, {{"kernel", "(1, 1)"}}},
      {{0, 16, 3, 3}, {{"kernel", "(2, 2)"}}},
  };
  for (const auto& [x, attrs] : cases) {
    for (const int64_t block : {1, 8, 16}) {
      SCOPED_TRACE(absl::StrCat(x.ToString(), " in blocks of ", block));
      Numbers numbers = Varied(x);
      if (numbers.values.size() > 40) numbers.values[40] = kNan;
      ExpectInBlocks(MakeNode("_blocked_Pooling", "blocked", {ToBlocked(MakeVariable("x"), block)}, attrs),
                     MakeNode("Pooling", "plain", {MakeVariable("x")}, attrs), {{"x", HostTensor::Of(numbers, DType::kFloat32)}});
    }
  }
}

TEST(ChannelBlocksTest, WhatDoesNotFillBlocksIsRefused) {
  const Numbers filters = Varied({16, 16, 1, 1}), bias = Varied({16});
  const AttrDict attrs = {{"kernel", "(1, 1)"}, {"num_filter", "16"}, {"block", "8"}};
  const auto with = [&](const char* name, const char* value) {
    AttrDict more = attrs;
    more[name] = value;
    return more;
  };
  const auto says = [](const absl::Status& status, absl::string_view what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), what)) << status;
  };
  says(ErrorOf("_to_blocked", {Varied({1, 6, 2, 2})}, {{"block", "4"}}), "expected a multiple of 4 channels");
  says(ErrorOf("_to_blocked", {Varied({1, 6, 2})}, {{"block", "2"}}), "[1,6,2]");
  says(ErrorOf("_from_blocked", {Varied({1, 6, 2, 2})}), "[1,6,2,2]");
  says(ErrorOf("_blocked_Pooling", {Varied({1, 16, 2, 2})}, {{"kernel", "(1, 1)"}}), "[1,16,2,2]");
  says(ErrorOf("_blocked_Convolution", {Varied({1, 1, 2, 2, 16}), filters, bias}, attrs), "with blocks of 8");
  says(ErrorOf("_blocked_Convolution", {Varied({1, 16, 2}), filters, bias}, attrs), "[1,16,2]");
  says(ErrorOf("_blocked_Convolution", {Varied({1, 2, 2, 2, 8}), Varied({12, 16, 1, 1}), Varied({12})}, with("num_filter", "12")),
       "expected a multiple of block, 8");
  says(ErrorOf("_blocked_Convolution", {Varied({1, 2, 2, 2, 8}), Varied({16, 8, 1, 1}), bias}, with("num_group", "2")),
       "parameter 'num_group' is 2");
  says(ErrorOf("_blocked_Convolution", {Varied({1, 2, 2, 2, 8}), Varied({16, 16, 1}), bias}, with("kernel", "(1,)")), "expected 2");
}

}  // namespace
}  // namespace gluond::testing::channel_blocks
