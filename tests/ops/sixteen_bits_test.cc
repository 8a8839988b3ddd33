// Sums of 16-bit tensors are those of float32, rounded once: bfloat16 counts to 256 by ones, and float16 to 2048.

#include "engine/core/elementwise.h"
#include "engine/passes/gradient.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::sixteen_bits {
namespace {

constexpr int64_t kMany = 4096;

Numbers Filled(const Shape& shape, double value) { return {shape, std::vector<double>(static_cast<size_t>(shape.Size()), value)}; }

// A call whose first gradient, or whose output, is a sum of kMany ones in each element.
struct SumCase {
  std::string name, op;
  std::vector<Numbers> inputs;
  AttrDict attrs = {};
  size_t input = 0;  // The one that is differentiated.

  friend void PrintTo(const SumCase& c, std::ostream* os) { *os << c.op << " " << c.name; }
};
std::string NameOf(const ::testing::TestParamInfo<SumCase>& info) { return info.param.name; }

std::map<std::string, HostTensor> Variables(const SumCase& c, DType type) {
  std::map<std::string, HostTensor> at;
  for (size_t i = 0; i < c.inputs.size(); ++i) at[absl::StrCat("x", i)] = HostTensor::Of(c.inputs[i], type);
  return at;
}
std::vector<NodeEntry> Entries(const SumCase& c) {
  std::vector<NodeEntry> xs;
  for (size_t i = 0; i < c.inputs.size(); ++i) xs.push_back(MakeVariable(absl::StrCat("x", i)));
  return xs;
}
void ExpectSums(const absl::StatusOr<std::vector<HostTensor>>& found, DType type) {
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)[0].dtype, type);
  for (const double v : (*found)[0].values()) EXPECT_EQ(v, kMany) << Name(type);
}

class SumOfGradients : public ::testing::TestWithParam<SumCase> {};

TEST_P(SumOfGradients, RoundsOnce) {
  const SumCase& c = GetParam();
  for (const DType type : {DType::kFloat16, DType::kBfloat16}) {
    const std::vector<NodeEntry> xs = Entries(c);
    const NodePtr node = *TryMakeNode(c.op, "y", xs, c.attrs);
    const Gradients dx = *BuildGradient({Output(node)}, {xs[c.input]}, {NodeEntry()});
    ExpectSums(OneByOne().Evaluate(dx, Variables(c, type)), type);
  }
}

// Indices of slices are all 0, which every type holds.
INSTANTIATE_TEST_SUITE_P(
    SixteenBits, SumOfGradients,
    ::testing::ValuesIn(std::vector<SumCase>{
        {"Embedding", "Embedding", {Filled({kMany}, 0), Filled({1, 3}, 1)}, {{"input_dim", "1"}, {"output_dim", "3"}}, 1},
        {"Take", "take", {Filled({2, 1}, 1), Filled({kMany}, 0)}, {{"axis", "1"}}},
        {"GatherNd", "gather_nd", {Filled({1, 2}, 1), Filled({1, kMany}, 0)}},
        {"Broadcast", "broadcast_add", {Filled({1, 2}, 1), Filled({kMany, 2}, 1)}},
        {"Repeat", "repeat", {Filled({2}, 1)}, {{"repeats", "4096"}}},
        {"Bias", "FullyConnected", {Filled({kMany, 1}, 1), Filled({2, 1}, 1), Filled({2}, 1)}, {{"num_hidden", "2"}}, 2},
        {"Weight", "FullyConnected", {Filled({kMany, 1}, 1), Filled({2, 1}, 1), Filled({2}, 1)}, {{"num_hidden", "2"}}, 1},
        {"Filter",
         "Convolution",
         {Filled({kMany, 1, 1, 1}, 1), Filled({2, 1, 1, 1}, 1)},
         {{"num_filter", "2"}, {"kernel", "(1, 1)"}, {"no_bias", "True"}},
         1},
        {"Pad", "Pad", {Filled({1, 1, 1, 1}, 1)}, {{"mode", "edge"}, {"pad_width", "(0, 0, 0, 0, 0, 63, 0, 63)"}}},
        {"UpSampling", "UpSampling", {Filled({1, 1, 1, 1}, 1)}, {{"sample_type", "nearest"}, {"scale", "64"}}},
    }),
    NameOf);

TEST(SixteenBits, ManyUsesOfOneArrayAreAddedUpInFloat32) {
  // The large one lies between ones: whichever end the sum begins at, 16 bits would lose the ones that follow.
  constexpr int64_t kOnes = 96;
  for (const DType type : {DType::kFloat16, DType::kBfloat16}) {
    const NodeEntry x = MakeVariable("x");
    Gradients ys, heads;
    for (int64_t i = 0; i <= kOnes; ++i) {
      ys.push_back(MakeNode("_copy", "y", {x}));
      heads.push_back(i == kOnes / 2 ? MakeVariable("large") : NodeEntry());
    }
    const Gradients dx = *BuildGradient(ys, {x}, heads);
    ExpectSums(OneByOne().Evaluate(
                   dx, {{"x", HostTensor::Of({{2}, {1, 1}}, type)}, {"large", HostTensor::Of(Filled({2}, kMany - kOnes), type)}}),
               type);
  }
}

class SumOfInputs : public ::testing::TestWithParam<SumCase> {};

TEST_P(SumOfInputs, RoundsOnce) {
  const SumCase& c = GetParam();
  for (const DType type : {DType::kFloat16, DType::kBfloat16}) {
    const NodePtr node = *TryMakeNode(c.op, "y", Entries(c), c.attrs);
    ExpectSums(OneByOne().Evaluate({Output(node)}, Variables(c, type)), type);
  }
}

INSTANTIATE_TEST_SUITE_P(SixteenBits, SumOfInputs,
                         ::testing::ValuesIn(std::vector<SumCase>{
                             {"AddN", "add_n", std::vector<Numbers>(kMany, Filled({2}, 1))},
                             {"UpSampling",
                              "UpSampling",
                              std::vector<Numbers>(kMany, Filled({1, 1, 1, 1}, 1)),
                              {{"sample_type", "nearest"}, {"scale", "1"}, {"multi_input_mode", "sum"}}},
                             {"Sum", "sum", {Filled({2, kMany}, 1)}, {{"axis", "1"}}},
                             {"Product", "dot", {Filled({1, kMany}, 1), Filled({kMany, 2}, 1)}},
                         }),
                         NameOf);

// What is between has the range of float32: a mean of numbers whose sum is beyond float16's 65504.
OP_CASES(WideSums,
         {
             OpCase{"Mean", "mean", {Filled({2, 8}, 60000)}, {{"axis", "1"}}, {Filled({2}, 60000)}}.OnlyFloats().WithoutGradient(),
             OpCase{"Norm", "norm", {Filled({16}, 8192)}, {}, {Filled({1}, 32768)}}.OnlyFloats().WithoutGradient(),
             OpCase{"Pooling",
                    "Pooling",
                    {Filled({1, 1, 3, 3}, 60000)},
                    {{"kernel", "(3, 3)"}, {"pool_type", "avg"}},
                    {Filled({1, 1, 1, 1}, 60000)}}
                 .OnlyFloats()
                 .WithoutGradient(),
             OpCase{"GlobalPooling",
                    "Pooling",
                    {Filled({1, 1, 3, 3}, 60000)},
                    {{"global_pool", "True"}, {"pool_type", "avg"}},
                    {Filled({1, 1, 1, 1}, 60000)}}
                 .OnlyFloats()
                 .WithoutGradient(),
             OpCase{"AdaptivePooling",
                    "_contrib_AdaptiveAvgPooling2D",
                    {Filled({1, 1, 3, 3}, 60000)},
                    {{"output_size", "1"}},
                    {Filled({1, 1, 1, 1}, 60000)}}
                 .OnlyFloats()
                 .WithoutGradient(),
         });

}  // namespace
}  // namespace gluond::testing::sixteen_bits
