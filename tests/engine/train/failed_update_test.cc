// An update's operator that fails behind the step's pause, when there is nothing left by which a step may fail: what the call
// says, and what stands afterwards.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/param.h"
#include "engine/train/sharded_step.h"
#include "gmock/gmock.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

using testing::HasSubstr;

// The weights that a call of the operator writes before it fails; negative: it writes all. Some calls before it pass.
int writes_before_failure = -1, passing_calls = 0;

struct FragileParam : Param<FragileParam> {
  std::string numbers;
  int64_t num_weights;
  double clip_gradient;
  static void Fields(Schema<FragileParam>& s) {
    s.Field("numbers", &FragileParam::numbers).Describe("The columns of the numbers.");
    s.Field("num_weights", &FragileParam::num_weights).Describe("The number of weights.");
    s.Field("clip_gradient", &FragileParam::clip_gradient).Default(-1.0).Describe("Unused.");
  }
};

// w = w - lr rescale_grad g.
struct FragileUpdate {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType>,
                          absl::Span<const TBlob> out) {
    EXPECT_EQ(attrs.param<FragileParam>().numbers, "rescale_grad,lr,wd");
    const auto* const numbers = in[0].dptr<double>();
    const int writes = passing_calls-- > 0 ? -1 : writes_before_failure;
    for (size_t k = 0; k < out.size(); ++k) {
      if (static_cast<int>(k) == writes) return absl::UnavailableError("the test's operator fails");
      const auto rate = static_cast<float>(numbers[3 * k] * numbers[3 * k + 1]);
      for (int64_t i = 0; i < out[k].Size(); ++i) {
        out[k].dptr<float>()[i] = in[1 + 2 * k].dptr<float>()[i] - rate * in[2 + 2 * k].dptr<float>()[i];
      }
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP_NAMED(multi_t_update, "_multi_t_update")
    .describe("Steps against the gradient, which writes_before_failure may stop.")
    .params<FragileParam>()
    .set_num_inputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(1 + 2 * attrs.param<FragileParam>().num_weights); })
    .set_num_outputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(attrs.param<FragileParam>().num_weights); })
    .set_attr<FInplaceOption>("FInplaceOption",
                              [](const NodeAttrs& attrs) {
                                std::vector<std::pair<int, int>> pairs;
                                for (int k = 0; k < attrs.param<FragileParam>().num_weights; ++k) pairs.push_back({1 + 2 * k, k});
                                return pairs;
                              })
    .infer(
        [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
          for (size_t k = 0; k < out->size(); ++k) (*out)[k] = (*in)[1 + 2 * k];
          return true;
        },
        [](const NodeAttrs&, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
          for (size_t k = 0; k < out->size(); ++k) (*out)[k] = (*in)[1 + 2 * k];
          return true;
        })
    .compute<FragileUpdate>();

class FragileOptimizer final : public OperatorOptimizer {
 public:
  FragileOptimizer() : OperatorOptimizer({.learning_rate = 0.1, .wd = 0, .clip_gradient = {}, .multi_precision = false}) {}
  std::string op() const override { return "t_update"; }
  AttrDict attrs() const override { return {}; }
};

class FailedUpdateTest : public TrainerTest {
 protected:
  ~FailedUpdateTest() override { writes_before_failure = -1, passing_calls = 0; }

  std::shared_ptr<Trainer> Begin() {
    model_ = MakeModel(Mlp(8, 3), {{"data", {-1, 4}}});
    EXPECT_OK(Initialize(*model_, {{"Xavier", {}}}));
    auto trainer = Trainer::Create(model_, {}, std::make_unique<FragileOptimizer>());
    EXPECT_OK(trainer.status());
    EXPECT_OK(TrainStep(**trainer, Batch()).status());
    return *std::move(trainer);
  }

  NamedTensors Batch() { return {{"data", MakeNoise({6, 4}, 3)}, {"label", Make<float>({6}, {0, 1, 2, 0, 1, 2})}}; }

  // All but the parameters that have gradients.
  std::string CountsOf(Trainer& trainer) {
    const States states = SnapshotOf(trainer);
    std::string text = absl::StrCat("step ", states.second.step, ", random ", states.first.random.runs);
    for (const auto& [name, updates] : states.second.updates) absl::StrAppend(&text, "\n", name, " ", updates);
    for (const auto& [name, tensor] : states.first.parameters) {
      if (absl::StrContains(name, "running")) absl::StrAppend(&text, "\n", name, ": ", Bytes(tensor));
    }
    return text;
  }
  // The learned parameters, one after the other.
  std::vector<std::string> WeightsOf(Trainer& trainer) {
    std::vector<std::string> weights;
    for (const auto& [name, tensor] : SnapshotOf(trainer).first.parameters) {
      if (!absl::StrContains(name, "running")) weights.push_back(Bytes(tensor));
    }
    return weights;
  }
  void ExpectTold(const absl::Status& status, int64_t update) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("update ", update,
                                                         " of the model's parameters failed, and may have written "
                                                         "some of them; load a checkpoint, or go on: ")));
    EXPECT_THAT(status.message(), HasSubstr("update_float32"));
    EXPECT_THAT(status.message(), HasSubstr("the test's operator fails"));
  }

  struct Way {
    const char* name;
    std::function<absl::Status(Trainer&)> step;
  };
  std::vector<Way> Ways() {
    return {{"TrainStep", [this](Trainer& trainer) { return TrainStep(trainer, Batch()).status(); }},
            {"Step",
             [this](Trainer& trainer) {
               EXPECT_OK(Forward(*model_, {{"data", MakeNoise({6, 4}, 3)}}).status());
               EXPECT_OK(Backward(*model_, {}).status());
               return Step(trainer, 6).status();
             }},
            {"ShardedStep", [this](Trainer& trainer) {
               EXPECT_OK(Await<absl::Status>(
                   [&](auto done) { trainer.ComputeStep(Batch(), {.rows = 6, .shards = 4, .count = 4}, nullptr, nullptr, done); }));
               return Await<absl::StatusOr<StepReport>>([&](auto done) { trainer.ApplyStep(done); }).status();
             }}};
  }

  std::shared_ptr<Model> model_;
};

TEST_F(FailedUpdateTest, BeforeItsFirstWriteItChangesNothing) {
  for (const Way& way : Ways()) {
    SCOPED_TRACE(way.name);
    const auto straight = Begin();
    ASSERT_OK(way.step(*straight));
    const auto want = WeightsOf(*straight);
    const auto trainer = Begin();
    const auto weights = WeightsOf(*trainer);
    const bool runs_forward = way.name == std::string("Step");  // A call of its own, which counts its random numbers.
    const std::string counts = CountsOf(*trainer);
    writes_before_failure = 0;
    ExpectTold(way.step(*trainer), 2);
    EXPECT_EQ(WeightsOf(*trainer), weights);
    if (!runs_forward) {
      EXPECT_EQ(CountsOf(*trainer), counts);
    }
    EXPECT_EQ(trainer->step(), 1);
    writes_before_failure = -1;
    ASSERT_OK(way.step(*trainer));
    EXPECT_EQ(WeightsOf(*trainer), want) << "the step can be taken again";
    EXPECT_EQ(trainer->step(), 2);
  }
}

TEST_F(FailedUpdateTest, InItsMidstItLeavesWhatItHasWritten) {
  for (const Way& way : Ways()) {
    SCOPED_TRACE(way.name);
    const auto straight = Begin();
    ASSERT_OK(way.step(*straight));
    const auto want = WeightsOf(*straight);
    const auto trainer = Begin();
    const auto weights = WeightsOf(*trainer);
    const std::string counts = CountsOf(*trainer);
    writes_before_failure = 2;
    ExpectTold(way.step(*trainer), 2);
    const auto after = WeightsOf(*trainer);
    int written = 0;
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_TRUE(after[i] == weights[i] || after[i] == want[i]) << "a weight is the old one or the new one: " << i;
      written += after[i] != weights[i];
    }
    EXPECT_EQ(written, 2);
    if (way.name != std::string("Step")) {
      EXPECT_EQ(CountsOf(*trainer), counts) << "the step counts nowhere";
    }
    writes_before_failure = -1;
    EXPECT_OK(way.step(*trainer));
    EXPECT_EQ(trainer->step(), 2) << "later steps go on";
  }
}

// A call of several steps ends in silence where its next step can be taken by another call: not so here.
TEST_F(FailedUpdateTest, IsToldAfterOtherSteps) {
  const auto trainer = Begin();
  auto table = *Dataset::Create({{"data", {4}, DType::kFloat32}, {"label", Shape::Scalar(), DType::kFloat32}}, 18, *memory_);
  ASSERT_OK(table->Append("data", Bytes(MakeNoise({18, 4}, 5))));
  ASSERT_OK(table->Append("label", Bytes(Make<float>({18}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}))));
  ASSERT_OK(table->Commit());
  writes_before_failure = 0, passing_calls = 1;
  ExpectTold(TrainSteps(*trainer, {.dataset = table, .batch_size = 6, .steps = 3}).status(), 3);
  EXPECT_EQ(trainer->step(), 2) << "one of them was taken";
}

}  // namespace
}  // namespace gluond
