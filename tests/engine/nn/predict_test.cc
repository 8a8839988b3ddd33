// A model's predictions keep what follows from its parameters, and see each change of these at once.

#include <cmath>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/nn/node_spec.h"
#include "engine/runtime/constant_tensors.h"
#include "tests/engine/compile/all_passes.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

// Has never memory enough.
struct Exhausted {
  static inline int calls = 0;
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext&, absl::Span<const TBlob>, absl::Span<const OpReqType>,
                          absl::Span<const TBlob>) {
    ++calls;
    return absl::ResourceExhaustedError("the operator's own");
  }
};

GLUOND_REGISTER_OP_NAMED(t_exhausted, "t_exhausted")
    .describe("Fails.")
    .set_num_inputs(1)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .compute<Exhausted>();

class PredictTest : public ModelTest {
 protected:
  const AllPasses all_passes_;

  // Convolutions with norms after them, and a wide dense layer: weights are folded, put into blocks and packed.
  static BlockSpec Network() {
    return {"HybridSequential",
            "net",
            {},
            {{"Conv2D", "", {{"channels", "32"}, {"kernel_size", "3"}, {"padding", "1"}}},
             {"BatchNorm"},
             {"Activation", "", {{"activation", "relu"}}},
             {"Conv2D", "", {{"channels", "32"}, {"kernel_size", "3"}, {"use_bias", "False"}}},
             {"BatchNorm"},
             {"Dense", "", {{"units", "256"}}},
             {"BatchNorm"},
             {"Dense", "", {{"units", "10"}}}}};
  }

  std::shared_ptr<Model> Trained(uint64_t seed = 1) {
    std::shared_ptr<Model> model = MakeModel(Network(), {{"data", {-1, 3, 8, 8}, DType::kFloat32}}, seed);
    EXPECT_OK(Initialize(*model));
    EXPECT_OK(Forward(*model, {{"data", MakeNoise({4, 3, 8, 8}, 5)}}));  // The running values move.
    return model;
  }

  std::string Predicted(Model& model) {
    const absl::StatusOr<NamedTensors> outputs = Predict(model, {{"data", images_}});
    EXPECT_OK(outputs);
    return Bytes((*outputs)[0].tensor);
  }

  // The prediction of a model with these parameters that has predicted nothing yet.
  std::string PredictedAnew(Model& model) {
    std::shared_ptr<Model> other = MakeModel(Network(), {{"data", {-1, 3, 8, 8}, DType::kFloat32}}, 7);
    EXPECT_OK(Set(*other, *Get(model)));
    return Predicted(*other);
  }

  const Tensor images_ = MakeNoise({3, 3, 8, 8}, 9), rows_ = MakeNoise({16, 1024}, 9);
};

TEST_F(PredictTest, EachPredictionHasTheSameBits) {
  const std::shared_ptr<Model> model = Trained();
  const std::string first = Predicted(*model);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Predicted(*model), first) << i;
  EXPECT_EQ(PredictedAnew(*model), first);
}

TEST_F(PredictTest, TheSecondPredictionKeepsWhatTrainingDropsFirst) {
  const std::shared_ptr<Model> model = Trained();
  Predicted(*model);
  const int64_t first = budget_->used();
  Predicted(*model);
  const int64_t kept = budget_->used();
  EXPECT_GT(kept, first);
  Predicted(*model);
  EXPECT_EQ(budget_->used(), kept);
  EXPECT_OK(Forward(*model, {{"data", MakeNoise({4, 3, 8, 8}, 6)}}));
  EXPECT_LE(budget_->used(), first);
}

TEST_F(PredictTest, AChangeIsSeenAtOnce) {
  const std::shared_ptr<Model> model = Trained();
  for (int i = 0; i < 3; ++i) Predicted(*model);
  const NamedTensors parameters = *Get(*model);
  for (const NamedTensor& parameter : parameters) {  // One after the other: each is part of what is kept.
    SCOPED_TRACE(parameter.name);
    const std::string before = Predicted(*model);
    Tensor value = MakeNoise(parameter.tensor.shape(), 11);
    for (int64_t i = 0; i < value.Size(); ++i) value.data<float>()[i] = 0.5f + std::abs(value.data<float>()[i]);
    EXPECT_OK(Set(*model, {{parameter.name, value}}));
    const std::string after = Predicted(*model);
    EXPECT_NE(after, before);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Predicted(*model), after);
    EXPECT_EQ(PredictedAnew(*model), after);
    EXPECT_OK(Set(*model, {parameter}));
    EXPECT_EQ(Predicted(*model), before);
  }
  EXPECT_OK(Initialize(*model, {.initializer = {"Uniform", {}}, .force_reinit = true}));
  EXPECT_EQ(Predicted(*model), PredictedAnew(*model));
}

TEST_F(PredictTest, TrainingBetweenPredictionsIsSeen) {
  const std::shared_ptr<Model> model = Trained();
  for (int i = 0; i < 5; ++i) {
    const std::string before = Predicted(*model);
    Predicted(*model);
    EXPECT_OK(Forward(*model, {{"data", MakeNoise({4, 3, 8, 8}, 20 + static_cast<uint64_t>(i))}}));
    const std::string after = Predicted(*model);
    EXPECT_NE(after, before) << "the running values have moved";
    EXPECT_EQ(PredictedAnew(*model), after);
  }
}

TEST_F(PredictTest, WithoutMemoryToKeepAnythingThePredictionIsTheSameUpToRounding) {
  const std::shared_ptr<Model> model = Trained();
  const std::vector<float> want = Values((*Predict(*model, {{"data", images_}}))[0].tensor);
  const int64_t left = budget_->limit() - budget_->used() - (int64_t{1} << 18);  // Enough for a run, not for what it would keep.
  ASSERT_OK(budget_->Charge(left));
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<NamedTensors> outputs = Predict(*model, {{"data", images_}});
    ASSERT_OK(outputs);
    const std::vector<float> got = Values((*outputs)[0].tensor);
    for (size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-4 * (1 + std::abs(want[k])));
  }
  budget_->Refund(left);
  const auto is_kept = [&] { return Values((*Predict(*model, {{"data", images_}}))[0].tensor) == want; };
  int runs = 0;
  while (!is_kept() && runs <= UsesWithout::kMost) ++runs;
  EXPECT_LE(runs, UsesWithout::kMost) << "with memory, constants are kept again";
}

TEST_F(PredictTest, AFormForWhichThereWasNoMemoryIsMadeLaterAndChangesNoBit) {
  const std::shared_ptr<Model> model = MakeModel({"Dense", "", {{"units", "256"}}}, {{"data", {-1, 1024}, DType::kFloat32}}, 1);
  EXPECT_OK(Initialize(*model));
  const auto predicted = [&] { return Bytes((*Predict(*model, {{"data", rows_}}))[0].tensor); };
  const std::string first = predicted();
  const int64_t left = budget_->limit() - budget_->used() - (int64_t{1} << 16);  // The packed weight takes 1 MiB.
  ASSERT_OK(budget_->Charge(left));
  EXPECT_EQ(predicted(), first);
  budget_->Refund(left);
  const int64_t without = budget_->used();
  for (int i = 0; i < UsesWithout::kMost; ++i) ASSERT_EQ(predicted(), first) << i;
  EXPECT_LT(budget_->used(), without + (int64_t{1} << 16));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(predicted(), first);  // The first uses of constants do not keep them.
  EXPECT_GE(budget_->used(), without + (int64_t{1} << 20));
}

// Only for want of memory for constants is a run made again.
TEST_F(PredictTest, AnOperatorWithoutMemoryIsCalledOnce) {
  const absl::StatusOr<ModelDefinition> definition = ExpandNodes({{"FullyConnected", "fc", {{"data"}}, {{"num_hidden", "4"}}},
                                                                  {"BatchNorm", "bn", {{"fc"}}, {{"axis", "1"}}},
                                                                  {"t_exhausted", "end", {{"bn"}}}},
                                                                 {{"data", {-1, 3}}}, {{"end"}});
  ASSERT_OK(definition.status());
  const std::shared_ptr<Model> model = *Model::Create(*definition, Options());
  ASSERT_OK(Initialize(*model));
  const absl::Status status = Predict(*model, {{"data", MakeNoise({2, 3}, 1)}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(Exhausted::calls, 1);
}

}  // namespace
}  // namespace gluond
