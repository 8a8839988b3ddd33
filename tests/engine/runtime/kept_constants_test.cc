// Values that follow from constants alone are computed in the first two runs, and kept from then on until a constant changes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "engine/runtime/constant_tensors.h"
#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

using testing::ElementsAre;

class KeptConstantsTest : public testing::Test {
 protected:
  KeptConstantsTest() {
    KernelHook = [this] { return ++computed_, status_; };
  }
  ~KeptConstantsTest() override { KernelHook = nullptr; }

  using Names = absl::flat_hash_set<std::string>;

  std::unique_ptr<Executor> Compile(const std::vector<NodeEntry>& outputs, PassSet left_out = {}, int64_t n = 3) {
    auto executor = Executor::Compile({outputs}, SignatureOf(outputs, n),
                                      {.constants = std::make_shared<const Names>(Names{"w", "v"}), .left_out = left_out},
                                      bench_.lane(), bench_.allocator());
    EXPECT_EQ(executor.status(), absl::OkStatus());
    return *std::move(executor);
  }

  // The first output, where x is ones. Counts as one run.
  std::vector<float> Predict(Executor& executor) {
    constants_->BeginRun();
    constants_->Add(w_);
    constants_->Add(v_);
    return PredictAgain(executor);
  }
  // The same in the run that goes on.
  std::vector<float> PredictAgain(Executor& executor) {
    gluond::Run run = executor.NewRun();
    for (size_t i = 0; i < run.inputs.size(); ++i) {
      const std::string& name = executor.inputs()[i].name;
      run.inputs[i] = name == "w" ? w_ : name == "v" ? v_ : bench_.Filled(3, 1);
    }
    run.constants = constants_;
    std::vector<Tensor> outputs;
    failed_ = executor.RunAndWait(std::move(run), &outputs);
    return failed_.ok() ? Values(outputs[0]) : std::vector<float>();
  }

  void Write(const Tensor& tensor, float value) {
    constants_->Forget(tensor);
    std::fill_n(tensor.data<float>(), tensor.Size(), value);
  }

  NodeEntry Derived(const NodeEntry& from) {
    return MakeNode("t_scale", "twice", {MakeNode("t_call", "c", {from})}, {{"by", "2"}});
  }

  Bench bench_;
  int computed_ = 0;
  absl::Status status_, failed_;
  const NodeEntry x = MakeVariable("x"), w = MakeVariable("w"), v = MakeVariable("v");
  const Tensor w_ = bench_.Filled(3, 3), v_ = bench_.Filled(3, 4);
  const std::shared_ptr<Allocator> allocator_ = std::shared_ptr<Allocator>(&bench_.allocator(), [](Allocator*) {});
  const std::shared_ptr<ConstantTensors> constants_ = std::make_shared<ConstantTensors>(allocator_);
};

TEST_F(KeptConstantsTest, TheSecondRunKeepsThemAndTheThirdComputesNone) {
  const auto executor = Compile({MakeNode("t_add", "y", {x, Derived(w)})});
  int64_t first = 0;
  for (const int computed : {1, 2, 2, 2}) {
    EXPECT_THAT(Predict(*executor), ElementsAre(7, 7, 7));
    EXPECT_EQ(computed_, computed);
    if (computed == 1) first = bench_.budget().used();
    EXPECT_EQ(bench_.budget().used(), computed == 1 ? first : first + 12) << "the first run keeps nothing";
  }
}

// A run that lacks their memory may be made again without them, and no other run.
TEST_F(KeptConstantsTest, AnErrorTellsWhetherTheirMemoryIsTheReason) {
  const auto executor = Compile({MakeNode("t_add", "y", {x, Derived(w)})}), plain = Compile({MakeNode("t_call", "z", {x})});
  absl::StatusOr<Tensor> all =
      Tensor::Empty(bench_.allocator(), {bench_.budget().limit() - bench_.budget().used() - 30}, DType::kUint8);
  ASSERT_TRUE(all.ok()) << all.status();  // Two vectors are left, for an input and an output.
  EXPECT_THAT(Predict(*executor), ElementsAre());
  EXPECT_EQ(failed_.code(), absl::StatusCode::kResourceExhausted) << failed_;
  EXPECT_TRUE(IsByConstants(failed_)) << failed_;
  *all = Tensor();
  status_ = absl::ResourceExhaustedError("the operator's own");
  EXPECT_THAT(Predict(*plain), ElementsAre());
  EXPECT_EQ(failed_.code(), absl::StatusCode::kResourceExhausted) << failed_;
  EXPECT_FALSE(IsByConstants(failed_)) << failed_;
}

TEST_F(KeptConstantsTest, ARunWhoseConstantsAreNotFiniteIsToBeMadeWithoutThem) {
  const auto executor = Compile({MakeNode("t_add", "y", {x, Derived(w)})});
  Write(w_, std::numeric_limits<float>::max());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Predict(*executor), ElementsAre());
    EXPECT_TRUE(IsByConstants(failed_)) << failed_;
  }
  Write(w_, 3);
  EXPECT_THAT(Predict(*executor), ElementsAre(7, 7, 7));
}

TEST_F(KeptConstantsTest, WithoutThePassEachRunComputesThem) {
  const auto executor = Compile({MakeNode("t_add", "y", {x, Derived(w)})}, *PassSet::Parse("-keep_constants"));
  for (int i = 1; i < 5; ++i) {
    EXPECT_THAT(Predict(*executor), ElementsAre(7, 7, 7));
    EXPECT_EQ(computed_, i);
  }
}

TEST_F(KeptConstantsTest, AChangeDropsWhatFollowsFromIt) {
  const auto executor = Compile({MakeNode("t_add", "y", {x, Derived(w)})});
  for (int i = 0; i < 3; ++i) Predict(*executor);
  const int64_t kept = bench_.budget().used();
  Write(v_, 5);
  EXPECT_EQ(bench_.budget().used(), kept) << "it does not depend on v";
  Write(w_, 5);
  EXPECT_LT(bench_.budget().used(), kept);
  EXPECT_THAT(Predict(*executor), ElementsAre(11, 11, 11));
  EXPECT_THAT(Predict(*executor), ElementsAre(11, 11, 11));
  EXPECT_EQ(computed_, 4);
  Predict(*executor);
  EXPECT_EQ(computed_, 4);
}

TEST_F(KeptConstantsTest, ProgramsOfOneTextShareThem) {
  const auto one = Compile({MakeNode("t_add", "y", {x, Derived(w)})});
  const auto same = Compile({MakeNode("t_add", "z", {Derived(w), x})});
  const auto other = Compile({MakeNode("t_add", "y", {x, Derived(v)})});
  for (int i = 0; i < 2; ++i) Predict(*one);
  EXPECT_THAT(Predict(*same), ElementsAre(7, 7, 7));
  EXPECT_EQ(computed_, 2);
  EXPECT_THAT(Predict(*other), ElementsAre(9, 9, 9));
  EXPECT_EQ(computed_, 3);
}

TEST_F(KeptConstantsTest, AnOutputMayBeOne) {
  const NodeEntry derived = Derived(w);
  const auto executor = Compile({derived, MakeNode("t_add", "y", {x, derived}), derived});
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Predict(*executor), ElementsAre(6, 6, 6));
  EXPECT_EQ(computed_, 2);
}

TEST_F(KeptConstantsTest, TheSameBytesAreNotKeptTwice) {
  const auto executor = Compile({MakeNode("t_add", "y", {x, MakeNode("t_same", "s", {w})})});
  Predict(*executor);
  const int64_t idle = bench_.budget().used();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Predict(*executor), ElementsAre(4, 4, 4));
  EXPECT_EQ(bench_.budget().used(), idle);
}

TEST_F(KeptConstantsTest, ARunThatFailsKeepsNone) {
  const auto executor = Compile({MakeNode("t_add", "y", {x, Derived(w)})});
  Predict(*executor);
  status_ = absl::InternalError("no");
  for (int i = 0; i < 2; ++i) Predict(*executor);
  EXPECT_FALSE(failed_.ok());
  status_ = absl::OkStatus();
  EXPECT_THAT(Predict(*executor), ElementsAre(7, 7, 7));
  EXPECT_THAT(Predict(*executor), ElementsAre(7, 7, 7));
  EXPECT_EQ(computed_, 4);
}

TEST_F(KeptConstantsTest, WhatACallWritesIsNone) {
  const auto executor = Compile({MakeNode("t_bump", "y", {x, MakeNode("t_call", "c", {w})})});
  for (int i = 1; i < 4; ++i) {
    EXPECT_THAT(Predict(*executor), ElementsAre(1, 1, 1));
    EXPECT_EQ(computed_, i);
  }
}

TEST_F(KeptConstantsTest, WhatDependsOnAnInputIsNone) {
  const auto executor = Compile({MakeNode("t_call", "c", {MakeNode("t_add", "y", {x, w})})});
  for (int i = 1; i < 4; ++i) {
    EXPECT_THAT(Predict(*executor), ElementsAre(4, 4, 4));
    EXPECT_EQ(computed_, i);
  }
}

TEST_F(KeptConstantsTest, ARunWithoutConstantTensorsComputesThem) {
  const auto executor = Compile({MakeNode("t_add", "y", {x, Derived(w)})});
  for (int i = 1; i < 4; ++i) {
    gluond::Run run = MakeRun({bench_.Filled(3, 1), w_});
    std::vector<Tensor> outputs;
    EXPECT_EQ(executor->RunAndWait(std::move(run), &outputs), absl::OkStatus());
    EXPECT_EQ(computed_, i);
  }
}

}  // namespace
}  // namespace gluond
