// Tensors from nothing, and from random numbers.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/ops/op_case.h"

namespace gluond::testing::init {
namespace {

OP_CASES(Init,
         {
             {"Zeros", "_zeros", {}, {{"shape", "(2, 2)"}}, {{{2, 2}, {0, 0, 0, 0}}}},
             {"Ones", "_ones", {}, {{"shape", "(3,)"}, {"dtype", "int8"}}, {{{3}, {1, 1, 1}}}},
             {"Full", "_full", {}, {{"shape", "(2,)"}, {"value", "2.5"}, {"dtype", "float64"}}, {{{2}, {2.5, 2.5}}}},
             {"FullOfHalves", "_full", {}, {{"shape", "(2,)"}, {"value", "2.5"}, {"dtype", "bfloat16"}}, {{{2}, {2.5, 2.5}}}},
             {"NoElements", "_ones", {}, {{"shape", "(0, 3)"}}, {{{0, 3}, {}}}},
             {"Arange", "_arange", {}, {{"start", "2"}, {"stop", "9"}, {"step", "3"}}, {{{3}, {2, 5, 8}}}},
             {"ArangeToStart", "_arange", {}, {{"start", "3"}}, {{{3}, {0, 1, 2}}}},
             {"ArangeDown",
              "_arange",
              {},
              {{"start", "1"}, {"stop", "0"}, {"step", "-0.5"}, {"repeat", "2"}},
              {{{4}, {1, 1, 0.5, 0.5}}}},
             {"ArangeOfIntegers",
              "_arange",
              {},
              {{"start", "1.5"}, {"stop", "7.6"}, {"step", "1.7"}, {"dtype", "int32"}},
              {{{4}, {1, 2, 3, 4}}}},
             {"ArangeOfNothing", "_arange", {}, {{"start", "2"}, {"stop", "1"}}, {{{0}, {}}}},
             {"Linspace", "_linspace", {}, {{"start", "2"}, {"stop", "3"}, {"num", "5"}}, {{{5}, {2, 2.25, 2.5, 2.75, 3}}}},
             {"LinspaceWithoutEnd",
              "_linspace",
              {},
              {{"start", "2"}, {"stop", "3"}, {"num", "4"}, {"endpoint", "False"}},
              {{{4}, {2, 2.25, 2.5, 2.75}}}},
             {"LinspaceOfOne", "_linspace", {}, {{"start", "2"}, {"stop", "3"}, {"num", "1"}}, {{{1}, {2}}}},
             {"LinspaceOfNothing", "_linspace", {}, {{"start", "2"}, {"stop", "3"}, {"num", "0"}}, {{{0}, {}}}},
             {"ArangeLike",
              "_contrib_arange_like",
              {{{2, 3}, {9, 9, 9, 9, 9, 9}}},
              {{"start", "1"}, {"step", "2"}, {"repeat", "2"}},
              {{{2, 3}, {1, 1, 3, 3, 5, 5}}}},
             {"ArangeLikeAnAxis", "_contrib_arange_like", {{{2, 3}, {9, 9, 9, 9, 9, 9}}}, {{"axis", "-1"}}, {{{3}, {0, 1, 2}}}},
             {"ShapeArray", "shape_array", {{{2, 3}, {9, 9, 9, 9, 9, 9}}}, {}, {{{2}, {2, 3}}}},
             {"ShapeArrayOfNothing", "shape_array", {{{2, 0, 4}, {}}}, {}, {{{3}, {2, 0, 4}}}},
             {"SizeArray", "size_array", {{{2, 3}, {9, 9, 9, 9, 9, 9}}}, {}, {{{1}, {6}}}},
             {"Eye", "_eye", {}, {{"N", "2"}, {"dtype", "int64"}}, {{{2, 2}, {1, 0, 0, 1}}}},
             {"EyeAbove", "_eye", {}, {{"N", "2"}, {"M", "3"}, {"k", "1"}}, {{{2, 3}, {0, 1, 0, 0, 0, 1}}}},
         });

const Covers kRandom({"_random_uniform", "_random_normal"});

TEST(Init, HugeShapesAreRefusedBeforeAnythingIsAllocated) {
  for (const char* op : {"_zeros", "_ones", "_random_uniform", "_random_normal"}) {
    for (const char* shape : {"(281474976710656, 2)", "(-2,)", "(1,1,1,1,1,1,1,1,1)", "(4294967296, 4294967296)"}) {
      EXPECT_EQ(ErrorOf(op, {}, {{"shape", shape}}).code(), absl::StatusCode::kInvalidArgument) << op << shape;
    }
  }
  EXPECT_EQ(ErrorOf("_arange", {}, {{"start", "1e300"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("_arange", {}, {{"start", "1"}, {"step", "0"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("_arange", {}, {{"start", "nan"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("_eye", {}, {{"N", "281474976710656"}}).code(), absl::StatusCode::kInvalidArgument);
}

HostTensor Draw(const std::string& op, AttrDict attrs) {
  std::vector<HostTensor> none;
  return (*OneByOne().Call(**TryMakeNode(op, "y", {}, std::move(attrs)), &none))[0];
}

// Mean, and mean of (v - mean)^2.
std::pair<double, double> Moments(const std::vector<double>& v) {
  const double mean = std::accumulate(v.begin(), v.end(), 0.0) / v.size();
  double square = 0;
  for (double e : v) square += (e - mean) * (e - mean);
  return {mean, square / v.size()};
}

TEST(Random, UniformStaysInItsRangeAndFillsIt) {
  const std::vector<double> v = Draw("_random_uniform", {{"low", "2"}, {"high", "4"}, {"shape", "(100, 1001)"}}).values();
  EXPECT_GE(*std::min_element(v.begin(), v.end()), 2);
  EXPECT_LT(*std::max_element(v.begin(), v.end()), 4);
  const auto [mean, variance] = Moments(v);
  EXPECT_NEAR(mean, 3, 0.01);
  EXPECT_NEAR(variance, 4.0 / 12, 0.01);
}

TEST(Random, NormalHasItsMoments) {
  for (const char* dtype : {"float32", "float64", "float16", "bfloat16"}) {
    const std::vector<double> v =
        Draw("_random_normal", {{"loc", "-1"}, {"scale", "3"}, {"shape", "(100003,)"}, {"dtype", dtype}}).values();
    const auto [mean, variance] = Moments(v);
    EXPECT_NEAR(mean, -1, 0.05) << dtype;
    EXPECT_NEAR(variance, 9, 0.2) << dtype;
    const double within = std::count_if(v.begin(), v.end(), [](double e) { return std::abs(e + 1) < 3; });
    EXPECT_NEAR(within / v.size(), 0.6827, 0.01) << dtype;
  }
}

// A random element depends on its position only, whatever the shape and the pieces of the loop.
TEST(Random, TheFirstElementsOfALongTensorAreThoseOfAShortOne) {
  for (const char* op : {"_random_uniform", "_random_normal"}) {
    const std::vector<double> shorter = Draw(op, {{"shape", "(7,)"}}).values(), longer = Draw(op, {{"shape", "(50,)"}}).values();
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin())) << op;
  }
}

TEST(Random, WantsAFloatingPointType) {
  EXPECT_EQ(ErrorOf("_random_normal", {}, {{"shape", "(2,)"}, {"dtype", "int32"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("_random_normal", {}, {{"shape", "(2,)"}, {"scale", "-1"}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::testing::init
