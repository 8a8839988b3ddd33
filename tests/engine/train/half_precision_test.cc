// Optimizers of parameters of 16 bits: each follows its own run in float32, where states of 16 bits would stand still
// or diverge, since squares of small gradients are zero in float16, and 1 - 0.999 is nothing beside 1 in bfloat16.

#include <cmath>

#include "engine/core/convert.h"
#include "gmock/gmock.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

using testing::HasSubstr;

class HalfPrecisionTest : public TrainerTest {
 protected:
  // y = w x. Without a loss the gradient is the sum of x.
  std::shared_ptr<Model> MakeLine(DType dtype, double w) {
    auto model = MakeModel({"Dense", "", {{"units", "1"}, {"use_bias", "0"}, {"dtype", std::string(Name(dtype))}}, {}},
                           {{"data", {-1, 1}, dtype}});
    SetWeight(*model, w);
    return model;
  }
  Tensor Number(DType dtype, double value) {
    Tensor tensor = *Tensor::Empty(*memory_, {1, 1}, dtype);
    ConvertValues(&value, DType::kFloat64, tensor.data(), dtype, 1);
    return tensor;
  }
  void SetWeight(Model& model, double w) { ASSERT_OK(Set(model, {{"weight", Number(model.parameters()[0].dtype, w)}})); }
  static double ValueOf(const Tensor& tensor) {
    double value = 0;
    ConvertValues(tensor.data(), tensor.dtype(), &value, DType::kFloat64, 1);
    return value;
  }
  double Weight(Model& model) { return ValueOf((*Get(model))[0].tensor); }
  void Steps(Trainer& trainer, int n) {
    for (int t = 0; t < n; ++t) {
      const float g = (t % 2 == 0 ? 1.0f : 3.0f) / 16384;  // Its square is zero in float16.
      ASSERT_OK(TrainStep(trainer, {{"data", Make<float>({1, 1}, {g})}}).status());
    }
  }
  static std::vector<std::string> Describe(const NamedTensors& states) {
    std::vector<std::string> texts;
    for (const NamedTensor& s : states) texts.push_back(absl::StrCat(s.name, " ", Name(s.tensor.dtype())));
    return texts;
  }
};

struct FollowCase {
  const char* name;
  Spec optimizer;
};
class OptimizerFollowsTest : public HalfPrecisionTest, public testing::WithParamInterface<std::tuple<FollowCase, DType>> {};

TEST_P(OptimizerFollowsTest, ItsFloat32Run) {
  const auto& [optimizer, dtype] = GetParam();
  const auto exact = MakeLine(DType::kFloat32, 0.5), half = MakeLine(dtype, 0.5);
  for (const auto& model : {exact, half}) {
    Steps(*MakeTrainer(model, {.loss = {}, .optimizer = optimizer.optimizer}), 300);
  }
  const double w = Weight(*exact), rounding = dtype == DType::kFloat16 ? 0x1p-12 : 0x1p-9;
  EXPECT_GT(std::abs(w - 0.5), 4 * rounding) << "it moves";
  EXPECT_NEAR(Weight(*half), w, 1.01 * rounding);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerFollowsTest,
                         testing::Combine(testing::ValuesIn<FollowCase>({
                                              {"Sgd", {"sgd", {{"learning_rate", "1"}}}},
                                              {"SgdMomentum", {"sgd", {{"learning_rate", "0.1"}, {"momentum", "0.9"}}}},
                                              {"Nag", {"nag", {{"learning_rate", "0.1"}, {"momentum", "0.9"}}}},
                                              {"Signum", {"signum", {{"learning_rate", "0.0001"}}}},
                                              {"Dcasgd", {"dcasgd", {{"learning_rate", "1"}, {"momentum", "0.5"}}}},
                                              {"Lars", {"lars", {{"learning_rate", "0.01"}, {"momentum", "0.9"}, {"eta", "0.01"}}}},
                                              {"Adam", {"adam", {{"learning_rate", "0.0001"}}}},
                                              {"Adamax", {"adamax", {{"learning_rate", "0.0001"}}}},
                                              {"Nadam", {"nadam", {{"learning_rate", "0.0001"}}}},
                                              {"Ftml", {"ftml", {{"learning_rate", "0.0001"}}}},
                                              {"Lamb", {"lamb", {{"learning_rate", "0.0001"}}}},
                                              {"AdaGrad", {"adagrad", {{"learning_rate", "0.001"}}}},
                                              {"GroupAdaGrad", {"groupadagrad", {{"learning_rate", "0.1"}}}},
                                              {"AdaDelta", {"adadelta", {{"epsilon", "1e-9"}}}},
                                              {"AdamW", {"adamw", {{"learning_rate", "0.0001"}}}},
                                              {"RmsProp", {"rmsprop", {{"learning_rate", "0.0001"}}}},
                                              {"RmsPropCentered", {"rmsprop", {{"learning_rate", "0.0001"}, {"centered", "True"}}}},
                                          }),
                                          testing::Values(DType::kFloat16, DType::kBfloat16)),
                         [](const auto& info) {
                           const bool is_float16 = std::get<1>(info.param) == DType::kFloat16;
                           return absl::StrCat(std::get<0>(info.param).name, is_float16 ? "Float16" : "Bfloat16");
                         });

TEST_F(HalfPrecisionTest, StatesAreFloat32) {
  const auto model = MakeLine(DType::kFloat16, 0.5);
  const auto states = [&](const char* multi_precision) {
    const auto trainer = MakeTrainer(model, {.loss = {}, .optimizer = {"adam", {{"multi_precision", multi_precision}}}});
    Steps(*trainer, 1);
    return Describe(SnapshotOf(*trainer).second.states);
  };
  EXPECT_THAT(states("True"), testing::ElementsAre("weight/mean float32", "weight/var float32", "weight/weight32 float32"));
  EXPECT_THAT(states("False"), testing::ElementsAre("weight/mean float32", "weight/var float32"));
}

TEST_F(HalfPrecisionTest, FollowsValuesThatAreSet) {
  const auto model = MakeLine(DType::kFloat16, 0.5);
  const auto trainer = MakeTrainer(model, {.loss = {}, .optimizer = {"sgd", {{"learning_rate", "1"}}}});
  Steps(*trainer, 3);
  SetWeight(*model, 2);
  Steps(*trainer, 1);
  EXPECT_EQ(Weight(*model), 2) << "2 - 2^-14 is 2 in float16";
  EXPECT_EQ(ValueOf(SnapshotOf(*trainer).second.states[0].tensor), 2 - 0x1p-14);
}

TEST_F(HalfPrecisionTest, ACheckpointHasWhatTheParameterHasNot) {
  const TrainerOptions options = {.loss = {}, .optimizer = {"sgd", {{"learning_rate", "1"}}}};
  const auto model = MakeLine(DType::kBfloat16, 0.5), other = MakeLine(DType::kBfloat16, 7);
  const auto trainer = MakeTrainer(model, options), resumed = MakeTrainer(other, options);
  Steps(*trainer, 5);
  ASSERT_OK(Restore(*resumed, *other, SnapshotOf(*trainer)));
  for (Trainer* t : {trainer.get(), resumed.get()}) Steps(*t, 5);
  const auto weight32 = [](Trainer& t) { return ValueOf(SnapshotOf(t).second.states[0].tensor); };
  EXPECT_EQ(weight32(*resumed), weight32(*trainer));
}

TEST_F(HalfPrecisionTest, TakesStatesOf16Bits) {
  const TrainerOptions options = {.loss = {}, .optimizer = {"sgd", {{"learning_rate", "1"}, {"momentum", "0.5"}}}};
  const auto model = MakeLine(DType::kFloat16, 0.5);
  const auto trainer = MakeTrainer(model, options);
  States snapshot = SnapshotOf(*trainer);
  snapshot.second.states = {{"weight/mom", Number(DType::kFloat16, 0.25)}};
  ASSERT_OK(Restore(*trainer, *model, snapshot));
  ASSERT_OK(TrainStep(*trainer, {{"data", Make<float>({1, 1}, {0})}}).status());
  EXPECT_EQ(Weight(*model), 0.625);
  snapshot.second.states = {{"weight/mom", Number(DType::kFloat64, 0.25)}};
  EXPECT_THAT(std::string(Restore(*trainer, *model, snapshot).message()),
              HasSubstr("'weight/mom' is float64[1,1]; want float32[1,1]"));
  snapshot.second.states = {{"weight/mean", Number(DType::kFloat32, 0.25)}};
  EXPECT_THAT(std::string(Restore(*trainer, *model, snapshot).message()),
              HasSubstr("'weight/mean' does not belong to parameter 'weight', whose states are mom, weight32"));
}

}  // namespace
}  // namespace gluond
