#include "gluond/tensor.h"

#include <limits>

#include "gtest/gtest.h"

namespace gluond::client {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(TensorTest, KeepsShapeTypeAndValues) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(x.dtype(), DType::kFloat32);
  EXPECT_EQ(x.shape(), (Shape{2, 2}));
  EXPECT_EQ(x.size(), 4);
  EXPECT_EQ(*x.Values<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(TensorTest, ReadsAsNoOtherType) {
  EXPECT_EQ(Tensor::Of<float>({1}, {1}).Values<double>().status().message(), "Tensor: holds FLOAT32, read as FLOAT64");
}

TEST(TensorTest, HoldsScalarsAndNothing) {
  EXPECT_EQ(Tensor::Of<float>({}, {7}).size(), 1);
  EXPECT_EQ(Tensor::Of<float>({2, 0}, {}).size(), 0);
  EXPECT_EQ(Tensor().size(), 0);
  EXPECT_TRUE(Tensor::FromBytes(DType::kFloat32, {0, kHuge, kHuge}, "").ok());
}

struct BadCase {
  const char* name;
  Shape shape;
  size_t bytes;
};

class BadShapeTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadShapeTest, IsRefused) {
  const auto tensor = Tensor::FromBytes(DType::kFloat32, GetParam().shape, std::string(GetParam().bytes, 'x'));
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Tensor, BadShapeTest,
                         testing::ValuesIn<BadCase>({
                             {"Negative", {2, -1}, 8},
                             {"TooFewBytes", {3}, 8},
                             {"TooManyBytes", {1}, 8},
                             {"SizeWrapsToSmall", {int64_t{1} << 62, 4}, 0},
                             {"Huge", {kHuge}, 4},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(TensorTest, HoldsBooleansAndHalfTypes) {
  const Tensor yes = Tensor::Of<bool>({3}, {true, false, true});
  EXPECT_EQ(yes.bytes(), std::string("\1\0\1", 3));
  EXPECT_EQ(*yes.Values<bool>(), (std::vector<bool>{true, false, true}));
  const Tensor half = Tensor::Of<Float16>({2}, {Float16(1), Float16(-0.5)});
  EXPECT_EQ(half.bytes(), std::string("\x00\x3c\x00\xb8", 4));
  EXPECT_EQ(float(half.Values<Float16>()->back()), -0.5f);
  const Tensor upper = Tensor::Of<Bfloat16>({1}, {Bfloat16(1)});
  EXPECT_EQ(upper.bytes(), std::string("\x80\x3f", 2));
}

}  // namespace
}  // namespace gluond::client
