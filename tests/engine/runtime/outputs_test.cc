// Where outputs go: every OpReqType, memory that overlaps, values wanted twice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class OutputsTest : public testing::Test {
 protected:
  absl::Status Do(Executor& executor, std::vector<Tensor> inputs, std::vector<Tensor> outputs, std::vector<OpReqType> reqs = {}) {
    return executor.RunAndWait(MakeRun(std::move(inputs), std::move(outputs), std::move(reqs)), nullptr);
  }

  Bench bench_;
  const NodeEntry x_ = MakeVariable("x");
  const NodeEntry y_ = MakeVariable("y");
  const NodeEntry sum_ = MakeNode("t_add", "sum", {x_, y_});
  const NodeEntry squared_ = MakeNode("t_square", "squared", {sum_});
  const NodeEntry same_ = MakeNode("t_same", "same", {sum_});
  const Tensor three_ = bench_.Filled(3, 3), four_ = bench_.Filled(3, 4);
};

// The four ways in which an output's value comes to be, each with each request.
TEST_F(OutputsTest, HonoursEveryRequest) {
  struct Case {
    const char* what;
    std::vector<NodeEntry> outputs;
    size_t output;
    float value;
  };
  const NodeEntry split = MakeNode("t_split", "split", {x_});
  for (const Case& c : std::vector<Case>{
           {"nobody else reads it", {squared_}, 0, 49},
           {"another node reads it", {squared_, sum_}, 1, 7},
           {"a variable", {squared_, y_}, 1, 4},
           {"the first of two that want it", {squared_, squared_}, 0, 49},
           {"the second of two that want it", {squared_, squared_}, 1, 49},
           {"the same bytes as another output", {squared_, same_, sum_}, 1, 7},
           {"another output is the same bytes", {squared_, same_, sum_}, 2, 7},
           {"the same bytes as what another node reads", {squared_, same_}, 1, 7},
           {"one of a node's outputs", {split, {split.node, 1}, y_}, 1, 2},
       }) {
    SCOPED_TRACE(c.what);
    auto executor = bench_.Compile(c.outputs);
    std::vector<Tensor> inputs;
    for (const auto& variable : executor->inputs()) inputs.push_back(variable.name == "x" ? three_ : four_);
    for (const OpReqType req : {kNullOp, kWriteTo, kWriteInplace, kAddTo}) {
      for (const OpReqType others : {kNullOp, kWriteTo, kAddTo}) {
        SCOPED_TRACE(testing::Message() << "request " << req << ", of the others " << others);
        std::vector<Tensor> outputs;
        std::vector<OpReqType> reqs(c.outputs.size(), others);
        for (size_t k = 0; k < c.outputs.size(); ++k) outputs.push_back(bench_.Filled(3, 100));
        reqs[c.output] = req;
        ASSERT_EQ(Do(*executor, inputs, outputs, reqs), absl::OkStatus());
        const float expected = req == kNullOp ? 100 : req == kAddTo ? 100 + c.value : c.value;
        EXPECT_THAT(Values(outputs[c.output]), Each(expected));
        EXPECT_THAT(Values(three_), Each(3)) << "an input was written";
        EXPECT_THAT(Values(four_), Each(4)) << "an input was written";
      }
    }
  }
}

TEST_F(OutputsTest, WritesStraightToTheCaller) {
  auto executor = bench_.Compile({squared_});
  const Tensor out = bench_.Filled(3, 0);
  const int64_t used = bench_.budget().used();
  ASSERT_EQ(Do(*executor, {three_, four_}, {out}), absl::OkStatus());
  ASSERT_EQ(Do(*executor, {three_, four_}, {out}, {kAddTo}), absl::OkStatus());
  EXPECT_EQ(bench_.budget().used(), used) << "no memory of its own";
  EXPECT_THAT(Values(out), Each(98));
}

// The sum is there before the square is made of it: nothing is copied.
TEST_F(OutputsTest, WritesStraightToTheCallerWhatOthersRead) {
  auto executor = bench_.Compile({squared_, sum_});
  const Tensor square = bench_.Filled(3, 0), sum = bench_.Filled(3, 0);
  const int64_t used = bench_.budget().used();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Do(*executor, {three_, four_}, {square, sum}), absl::OkStatus());
  EXPECT_THAT(Values(square), Each(49));
  EXPECT_THAT(Values(sum), Each(7));
  EXPECT_EQ(bench_.budget().used(), used) << "no memory of its own";
  EXPECT_EQ(executor->arena_bytes(), 0);
}

TEST_F(OutputsTest, LendsWhatOthersReadFromWhereItWasMade) {
  std::vector<const void*> read;
  AsyncHook = [&read](const TBlob& in, const TBlob& out, const Completion& completion) {
    read.push_back(in.data);
    std::memcpy(out.data, in.data, in.bytes());
    completion(absl::OkStatus());
    return absl::OkStatus();
  };
  auto executor = bench_.Compile({same_, sum_, MakeNode("t_async", "a", {sum_}), MakeNode("t_async", "b", {same_})});
  std::vector<Tensor> outputs;
  ASSERT_EQ(executor->RunAndWait(MakeRun({three_, four_}), &outputs), absl::OkStatus());
  AsyncHook = nullptr;
  EXPECT_THAT(read, ElementsAre(outputs[0].data(), outputs[0].data()));
  EXPECT_EQ(outputs[0].data(), outputs[1].data()) << "one value, one memory";
  for (const Tensor& output : outputs) EXPECT_THAT(Values(output), Each(7));
}

// Memory that is still held is not written by the next run, whichever output of the value is held.
TEST_F(OutputsTest, LendsOtherMemoryWhileTheLastIsHeld) {
  auto executor = bench_.Compile({squared_, sum_, same_});
  std::vector<Tensor> outputs;
  ASSERT_EQ(executor->RunAndWait(MakeRun({three_, four_}), &outputs), absl::OkStatus());
  const Tensor held = outputs[2];
  outputs.clear();
  (void)executor->TakeRun();
  ASSERT_EQ(executor->RunAndWait(MakeRun({four_, four_}), &outputs), absl::OkStatus());
  EXPECT_THAT(Values(held), Each(7));
  EXPECT_THAT(Values(outputs[1]), Each(8));
  EXPECT_THAT(Values(outputs[2]), Each(8));
}

TEST_F(OutputsTest, LendsWhatIsBoundToNothing) {
  auto executor = bench_.Compile({squared_, sum_, x_, squared_});
  std::vector<Tensor> outputs;
  ASSERT_EQ(executor->RunAndWait(MakeRun({three_, four_}), &outputs), absl::OkStatus());
  EXPECT_THAT(Values(outputs[0]), Each(49));
  EXPECT_THAT(Values(outputs[1]), Each(7));
  EXPECT_THAT(Values(outputs[2]), Each(3));
  EXPECT_THAT(Values(outputs[3]), Each(49));
  EXPECT_NE(outputs[2].data(), three_.data()) << "an input's memory is not lent";
}

// An optimizer's update does so: the new weight goes where the old one is.
TEST_F(OutputsTest, UpdatesAnInputInPlace) {
  const NodeEntry update = MakeNode("t_add", "update", {x_, MakeNode("t_scale", "step", {y_}, {{"by", "-0.5"}})});
  auto executor = bench_.Compile({update});
  const Tensor weight = bench_.Filled(3, 10);
  const int64_t used = bench_.budget().used();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Do(*executor, {weight, four_}, {weight}), absl::OkStatus());
  EXPECT_THAT(Values(weight), Each(4));
  EXPECT_EQ(bench_.budget().used(), used) << "the operator can do it in place";
}

TEST_F(OutputsTest, WaitsWithAnInputThatIsReadLater) {
  // x is read again after the output that overwrites it has been computed.
  const NodeEntry first = MakeNode("t_scale", "first", {x_}, {{"by", "2"}});
  const NodeEntry second = MakeNode("t_square", "second", {x_});
  for (const bool overlaps_wholly : {true, false}) {
    const Tensor base = bench_.Of({1, 2, 3, 4});
    const Tensor x(base.buffer(), 0, Shape{3}, DType::kFloat32);
    const Tensor out(base.buffer(), overlaps_wholly ? 0 : sizeof(float), Shape{3}, DType::kFloat32);
    auto executor = bench_.Compile({first, second});
    const Tensor squares = bench_.Filled(3, 0);
    ASSERT_EQ(Do(*executor, {x}, {out, squares}), absl::OkStatus());
    EXPECT_THAT(Values(out), ElementsAre(2, 4, 6));
    EXPECT_THAT(Values(squares), ElementsAre(1, 4, 9));
  }
}

TEST_F(OutputsTest, DoesNotRunInPlaceWhatCannot) {
  auto executor = bench_.Compile({MakeNode("t_square", "s", {x_})});
  const Tensor x = bench_.Of({1, 2, 3});
  ASSERT_EQ(Do(*executor, {x}, {x}), absl::OkStatus());
  EXPECT_THAT(Values(x), ElementsAre(1, 4, 9));
  ASSERT_EQ(Do(*executor, {x}, {x}, {kAddTo}), absl::OkStatus());
  EXPECT_THAT(Values(x), ElementsAre(2, 20, 90));
}

TEST_F(OutputsTest, KeepsAVariableThatIsAnOutputUntilTheEnd) {
  auto executor = bench_.Compile({MakeNode("t_scale", "s", {x_}, {{"by", "2"}}), x_});
  const Tensor x = bench_.Filled(3, 1), old = bench_.Filled(3, 0);
  ASSERT_EQ(Do(*executor, {x}, {x, old}), absl::OkStatus());
  EXPECT_THAT(Values(x), Each(2));
  EXPECT_THAT(Values(old), Each(1));
}

TEST_F(OutputsTest, RefusesMemoryThatCannotWork) {
  const Tensor x = bench_.Filled(3, 1), y = bench_.Filled(3, 2);
  const auto refusal = [&](Executor& executor, std::vector<Tensor> inputs, std::vector<Tensor> outputs) {
    const absl::Status status = Do(executor, std::move(inputs), std::move(outputs));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(*bench_.Compile({squared_, sum_}), {x, y}, {x, x}),
            "outputs 0 and 1 overlap; bind them to memory of their own");
  EXPECT_THAT(refusal(*bench_.Compile({x_, y_}), {x, y}, {y, x}), HasSubstr("which is an output, too; copy it first"));
  EXPECT_EQ(refusal(*bench_.Compile({MakeNode("t_bump", "bump", {x_, y_})}), {x, x}, {y}),
            "inputs 'x' and 'y' overlap, and an operator writes 'y'");
}

// The time of a run whose variables are one tensor is the time of one whose variables are not.
TEST_F(OutputsTest, ManyVariablesMayBeOneTensor) {
  constexpr size_t kVariables = 16'000;
  std::vector<NodeEntry> terms;
  for (size_t i = 0; i < kVariables; ++i) terms.push_back(MakeVariable(absl::StrCat("v", i)));
  for (size_t i = 0; i + 1 < terms.size(); i += 2) terms.push_back(MakeNode("t_add", "sum", {terms[i], terms[i + 1]}));
  auto executor = bench_.Compile({terms.back()});
  std::vector<Tensor> separate;
  for (size_t i = 0; i < kVariables; ++i) separate.push_back(bench_.Filled(3, 1));
  const auto time = [&](const std::vector<Tensor>& inputs) {
    auto best = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 3; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(Do(*executor, inputs, {}), absl::OkStatus());
      best = std::min(best, std::chrono::steady_clock::now() - begin);
    }
    EXPECT_THAT(Values(executor->run().outputs[0]), Each(kVariables));
    return best;
  };
  const auto once = time(separate);
  EXPECT_LT(time(std::vector<Tensor>(kVariables, separate[0])), 4 * once);
}

// Each pair that matters is seen among many that do not.
TEST_F(OutputsTest, AnOutputIsSeenBehindManyVariables) {
  const std::vector<NodeEntry> outputs = {MakeNode("t_scale", "z", {sum_}, {{"by", "2"}}), MakeNode("t_square", "w", {y_})};
  auto executor = bench_.Compile(outputs);
  for (const int64_t at : {0, 1, 3, 4}) {  // The output lies in x, over its end, behind it, and apart from it.
    const Tensor base = bench_.Filled(8, 3);
    const Tensor x(base.buffer(), 0, {3}, DType::kFloat32);
    const Tensor z(base.buffer(), static_cast<size_t>(at) * sizeof(float), {3}, DType::kFloat32);
    ASSERT_EQ(Do(*executor, {x, x}, {z, Tensor()}), absl::OkStatus());
    EXPECT_THAT(Values(executor->run().outputs[0]), Each(12)) << at;
    EXPECT_THAT(Values(executor->run().outputs[1]), Each(9)) << at;
  }
}

}  // namespace
}  // namespace gluond
