// SequenceMask, SequenceLast, SequenceReverse; the lengths that they take.

#include <limits>

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::sequence {
namespace {

const Numbers kX = {{3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};  // Three steps, two sequences.
const Numbers kWide = {{2, 3, 1}, {1, 2, 3, 4, 5, 6}};                    // Two sequences of three steps with axis 1.
const AttrDict kLengths = {{"use_sequence_length", "True"}};
const AttrDict kLengthsAlongOne = {{"use_sequence_length", "True"}, {"axis", "1"}};

OP_CASES(
    SequenceMask,
    {
        OpCase{"OverwritesWhatIsBeyond",
               "SequenceMask",
               {kX, {{2}, {1, 3}}},
               {{"use_sequence_length", "True"}, {"value", "-1"}},
               {{{3, 2, 2}, {1, 2, 3, 4, -1, -1, 7, 8, -1, -1, 11, 12}}}}
            .Indices({1})
            .TwiceDifferentiable(),
        OpCase{"AlongAxisOne", "SequenceMask", {kWide, {{2}, {0, 2}}}, kLengthsAlongOne, {{{2, 3, 1}, {0, 0, 0, 4, 5, 0}}}}
            .Indices({1})
            .TwiceDifferentiable(),
        OpCase{"LeavesAllWithoutLengths", "SequenceMask", {kX}, {{"value", "7"}}, {kX}}.TwiceDifferentiable(),
        OpCase{
            "OfLengthsThatAreTooLong", "SequenceMask", {kWide, {{2}, {9, -3}}}, kLengthsAlongOne, {{{2, 3, 1}, {1, 2, 3, 0, 0, 0}}}}
            .Indices({1}),
        OpCase{"OfNoSteps", "SequenceMask", {{{0, 2}, {}}, {{2}, {1, 3}}}, kLengths, {{{0, 2}, {}}}}.Indices({1}),
    });

OP_CASES(SequenceReverse,
         {
             OpCase{"TurnsEachAround",
                    "SequenceReverse",
                    {kX, {{2}, {1, 3}}},
                    kLengths,
                    {{{3, 2, 2}, {1, 2, 11, 12, 5, 6, 7, 8, 9, 10, 3, 4}}}}
                 .Indices({1})
                 .TwiceDifferentiable(),
             OpCase{"TurnsAllAround", "SequenceReverse", {kX}, {}, {{{3, 2, 2}, {9, 10, 11, 12, 5, 6, 7, 8, 1, 2, 3, 4}}}}
                 .TwiceDifferentiable(),
             OpCase{"OfOne", "SequenceReverse", {{{1, 1}, {5}}}, {}, {{{1, 1}, {5}}}},
         });

OP_CASES(SequenceLast,
         {
             OpCase{"TakesEachLast", "SequenceLast", {kX, {{2}, {1, 3}}}, kLengths, {{{2, 2}, {1, 2, 11, 12}}}}
                 .Indices({1})
                 .TwiceDifferentiable(),
             OpCase{"AlongAxisOne", "SequenceLast", {kWide, {{2}, {3, 2}}}, kLengthsAlongOne, {{{2, 1}, {3, 5}}}}
                 .Indices({1})
                 .TwiceDifferentiable(),
             OpCase{"TakesTheLastStep", "SequenceLast", {kX}, {}, {{{2, 2}, {9, 10, 11, 12}}}}.TwiceDifferentiable(),
             OpCase{"OfRankTwo", "SequenceLast", {{{3, 2}, {1, 2, 3, 4, 5, 6}}}, {}, {{{2}, {5, 6}}}}.TwiceDifferentiable(),
         });

TEST(SequenceLast, AnEmptySequenceIsAnErrorThatNamesIt) {
  if (TestDevice().type == DeviceType::kGpu) GTEST_SKIP() << "a GPU takes the nearest element";
  for (double bad : {0.0, -1.0, 4.0, std::numeric_limits<double>::quiet_NaN()}) {
    const absl::Status status = ErrorOf("SequenceLast", {kX, {{2}, {1, bad}}}, kLengths);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find("sequence 1"), absl::string_view::npos) << status;
  }
}

TEST(Sequences, RefuseWhatDoesNotFit) {
  for (const char* op : {"SequenceMask", "SequenceLast", "SequenceReverse"}) {
    EXPECT_EQ(ErrorOf(op, {{{3}, {1, 2, 3}}}).code(), absl::StatusCode::kInvalidArgument) << op;
    EXPECT_EQ(ErrorOf(op, {kX, {{3}, {1, 1, 1}}}, kLengths).code(), absl::StatusCode::kInvalidArgument) << op;
    EXPECT_EQ(ErrorOf(op, {kX}, {{"axis", "2"}}).code(), absl::StatusCode::kInvalidArgument) << op;
  }
  EXPECT_EQ(ErrorOf("SequenceReverse", {kX}, {{"axis", "1"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("SequenceLast", {{{0, 2}, {}}}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Sequences, LengthsMayHaveAnyType) {
  const Op* op = Op::Find("SequenceMask");
  NodeAttrs attrs;
  attrs.dict = kLengths;
  ASSERT_TRUE(op->ParseAttrs(&attrs).ok());
  TypeVector in = {DType::kFloat16, DType::kInt32}, out = {DType::kUnknown};
  EXPECT_TRUE((*op->GetAttr<FInferType>("FInferType"))(attrs, &in, &out).value());
  EXPECT_EQ(out[0], DType::kFloat16);
  EXPECT_EQ(in[1], DType::kInt32);
  EXPECT_EQ(op->input_names(attrs, 2), (std::vector<std::string>{"data", "sequence_length"}));
}

}  // namespace
}  // namespace gluond::testing::sequence
