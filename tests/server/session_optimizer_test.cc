// Commands of a session on optimizers: DefineOptimizer, StepOptimizer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/optimizer.h"
#include "tests/server/session_program_fixture.h"

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::Not;
using Code = absl::StatusCode;

class SessionOptimizerTest : public SessionProgramTest {
 protected:
  // Arrays `first` and `first` + 1, a matrix and a vector, and their gradients, ten further on.
  void PutWeights(uint64_t first) {
    PutMatrix(first, {0.5, -1, 2, 0.25});
    Put(first + 1, {1, -3});
    Do(absl::StrCat(R"("mark": {"arrays": [{"variable": )", first, R"(, "gradient": )", first + 10, R"(}, {"variable": )",
                    first + 1, R"(, "gradient": )", first + 11, "}]}"));
  }
  void PutMatrix(uint64_t array, const std::vector<float>& values) {
    Do(absl::StrCat(R"("put": {"array": )", array, R"(, "tensor": {"shape": [2, 2], "float_data": [)", absl::StrJoin(values, ","),
                    "]}}"));
  }
  // Gradients of the sum of the squares of both, which are fresh afterwards.
  void Differentiate(uint64_t first) {
    for (const uint64_t array : {first, first + 1}) {
      Record("square", {array}, {900 + array});
      Do(absl::StrCat(R"("backward": {"heads": [)", 900 + array, "]}"));
    }
  }
  uint64_t Define(const std::string& definition, const std::string& weights) {
    return Do(
        absl::StrCat(R"("define_optimizer": {"optimizer": 1, "definition": {)", definition, R"(}, "weights": [)", weights, "]}"));
  }
  uint64_t Step(const std::string& more = "") { return Do(R"("step_optimizer": {"optimizer": 1)" + more + "}"); }
};

TEST_F(SessionOptimizerTest, StepsAsTheOperatorDoes) {
  PutWeights(1);
  Define(R"("name": "adam", "attributes": {"wd": 0.01})",
         R"({"array": 1, "states": {"var": 32, "mean": 31}}, {"array": 2, "lr_mult": 2})");
  PutMatrix(51, {0.5, -1, 2, 0.25});  // The operator gets the same values.
  Call("zeros_like", {51}, {52});
  Call("zeros_like", {51}, {53});
  for (int t = 1; t <= 3; ++t) {
    Differentiate(1);
    Step(R"(, "learning_rates": [0.1], "rescale_grad": 0.5, "stale": "REFUSED")");
    const double lr = 0.1 * (std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)));
    char text[64];
    std::snprintf(text, sizeof text, "%.17g", lr);
    Prepare(7, "adam_update", absl::StrCat(R"("lr": ")", text, R"(", "wd": "0.01", "rescale_grad": "0.5")"));
    Invoke(7, {51, 11, 52, 53}, {51});
    EXPECT_EQ(Values(1), Values(51)) << t;
    EXPECT_EQ(Values(31), Values(52)) << t;
    EXPECT_EQ(Values(32), Values(53)) << t;
  }
  EXPECT_THAT(Values(2), Not(ElementsAre(1, -3)));
  ExpectNothingNoted();
}

// States that have names and those that have none begin alike, and go on alike.
TEST_F(SessionOptimizerTest, EveryOptimizerSteps) {
  for (const OptimizerCatalog::Entry& entry : Optimizers().entries()) {
    if (entry.name == "sgld") continue;  // Its noise differs.
    SCOPED_TRACE(entry.name);
    const auto made = Optimizers().Make(entry.name, AttrDict());
    ASSERT_TRUE(made.ok()) << made.status();
    const std::string second = entry.name == "groupadagrad" ? "" : R"(, {"array": 2, "name": "bias"})";  // It takes matrices only.
    std::vector<std::vector<float>> values;
    for (const bool has_names : {false, true}) {
      Open({});
      PutWeights(1);
      std::string states;
      uint64_t array = 70;
      for (const OptimizerState& state : (*made)->states()) {
        absl::StrAppend(&states, states.empty() ? "" : ", ", "\"", state.name, "\": ", array++);
      }
      Define(R"("name": ")" + entry.name + "\"", R"({"array": 1, "states": {)" + (has_names ? states : "") + "}}" + second);
      for (int i = 0; i < 3; ++i) {
        Differentiate(1);
        Step(R"(, "rescale_grad": 0.125)");
      }
      EXPECT_THAT(Values(1), Not(ElementsAre(0.5, -1, 2, 0.25)));
      values.push_back(Values(1));
      values.push_back(Values(2));
      for (uint64_t state = 70; has_names && state < array; ++state) EXPECT_THAT(Values(state), Not(testing::IsEmpty()));
      ExpectNothingNoted();
    }
    EXPECT_EQ(values[0], values[2]);
    EXPECT_EQ(values[1], values[3]);
  }
}

TEST_F(SessionOptimizerTest, KeepsAFloat32WeightOfAFloat16One) {
  for (const std::string name : {"sgd", "adam", "ftml", "adagrad"}) {
    SCOPED_TRACE(name);
    Open({});
    Do(R"("put": {"array": 1, "tensor": {"shape": [2], "dtype": "FLOAT16", "fill": {"constant": 1}}})");
    Put(2, {1, 1});
    Do(R"("mark": {"arrays": [{"variable": 1, "gradient": 11}, {"variable": 2, "gradient": 12}]})");
    Define(R"("name": ")" + name + R"(", "attributes": {"learning_rate": 0.0001})",
           R"({"array": 1, "states": {"weight32": 31}}, {"array": 2})");
    for (int i = 0; i < 3; ++i) {
      Do(R"("put": {"array": 12, "tensor": {"shape": [2], "float_data": [1, 1]}})");
      Do(R"("put": {"array": 11, "tensor": {"shape": [2], "dtype": "FLOAT16", "fill": {"constant": 1}}})");
      Step();
    }
    EXPECT_EQ(Values(31), Values(2)) << "steps are too small for float16, and add up";
    EXPECT_THAT(Values(2), Not(ElementsAre(1, 1)));
    ExpectNothingNoted();
  }
}

TEST_F(SessionOptimizerTest, TakesTheGradientsAndPlacesThatItIsGiven) {
  PutWeights(1);
  Put(3, {1, 1});
  Define(R"("name": "sgd", "attributes": {"learning_rate": 1})", R"({"array": 1}, {"array": 2})");
  Step(R"(, "weights": [1], "gradients": [3])");
  EXPECT_THAT(Values(2), ElementsAre(0, -4));
  EXPECT_THAT(Values(1), ElementsAre(0.5, -1, 2, 0.25)) << "is not named";
  Step(R"(, "weights": [1], "gradients": [3], "learning_rates": [2], "rescale_grad": 0.5)");
  EXPECT_THAT(Values(2), ElementsAre(-1, -5));
  PutMatrix(4, {1, 1, 1, 1});
  Step(R"(, "gradients": [4, 3], "learning_rates": [1, 3])");
  EXPECT_THAT(Values(1), ElementsAre(-0.5, -2, 1, -0.75));
  EXPECT_THAT(Values(2), ElementsAre(-4, -8));
  ExpectNothingNoted();
}

// Random operators of the program draw the same numbers with and without steps, but for steps that draw themselves.
TEST_F(SessionOptimizerTest, LeavesTheRandomStateAlone) {
  std::vector<std::vector<float>> drawn;
  for (const std::string optimizer : {"", "adam", "adagrad", "sgld"}) {
    Open({});
    Do(R"("seed": {"seed": 5})");
    PutWeights(1);
    if (!optimizer.empty()) Define(R"("name": ")" + optimizer + "\"", R"({"array": 1}, {"array": 2})");
    Differentiate(1);
    if (!optimizer.empty()) Step();
    Prepare(4, "_random_uniform", R"x("shape": "(4,)")x");
    Invoke(4, {}, {5});
    drawn.push_back(Values(5));
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_EQ(drawn[0], drawn[2]);
  EXPECT_NE(drawn[0], drawn[3]);
}

// The number of an update counts in adam's formula.
TEST_F(SessionOptimizerTest, CountsUpdatesUnlessTheClientDoes) {
  std::vector<std::vector<float>> values;
  for (const std::vector<std::string>& steps : std::vector<std::vector<std::string>>{
           {"", ""}, {R"(, "updates": [1])", R"(, "updates": [2, 2])"}, {"", R"(, "updates": [1])"}}) {
    Open({});
    PutWeights(1);
    Define(R"("name": "adam")", R"({"array": 1}, {"array": 2})");
    for (const std::string& step : steps) {
      Differentiate(1);
      Step(step);
    }
    values.push_back(Values(1));
  }
  EXPECT_EQ(values[0], values[1]);
  EXPECT_NE(values[0], values[2]);
}

TEST_F(SessionOptimizerTest, RefusesStaleGradients) {
  PutWeights(1);
  Define(R"("name": "sgd")", R"({"array": 1}, {"array": 2})");
  Differentiate(1);
  Step(R"(, "stale": "REFUSED")");
  const std::vector<float> once = Values(1);
  EXPECT_THAT(once, Not(ElementsAre(0.5, -1, 2, 0.25)));
  Step(R"(, "stale": "REFUSED")");
  ExpectNoted(Code::kFailedPrecondition, "the gradient of array 1 and of 2 has not been updated");
  EXPECT_EQ(Values(1), once) << "stays";
  Record("square", {1}, {901});
  Do(R"("backward": {"heads": [901]})");
  Step(R"(, "stale": "REFUSED")");
  ExpectNoted(Code::kFailedPrecondition, "the gradient of array 2 has");
  Step(R"(, "stale": "REFUSED")");
  ExpectNoted(Code::kFailedPrecondition, "array 1 and of 2");
}

TEST_F(SessionOptimizerTest, LeavesOutArraysWithStaleGradients) {
  PutWeights(1);
  Define(R"("name": "sgd")", R"({"array": 1}, {"array": 2})");
  Record("square", {2}, {902});
  Do(R"("backward": {"heads": [902]})");
  Step(R"(, "stale": "SKIPPED")");
  EXPECT_THAT(Values(1), ElementsAre(0.5, -1, 2, 0.25));
  const std::vector<float> once = Values(2);
  EXPECT_THAT(once, Not(ElementsAre(1, -3)));
  Step(R"(, "stale": "SKIPPED")");
  EXPECT_EQ(Values(2), once);
  ExpectNothingNoted();
}

TEST_F(SessionOptimizerTest, DependsOnAnotherArraysFreshness) {
  PutWeights(1);
  Define(R"("name": "sgd")", R"({"array": 1})");
  Step(R"(, "when_fresh": 2)");
  EXPECT_THAT(Values(1), ElementsAre(0.5, -1, 2, 0.25));
  Differentiate(1);
  Step(R"(, "when_fresh": 2)");
  EXPECT_THAT(Values(1), Not(ElementsAre(0.5, -1, 2, 0.25)));
  ExpectNothingNoted();
}

TEST_F(SessionOptimizerTest, WaitsForArraysThatAreNotKnownYet) {
  PutWeights(1);
  Do(R"("put": {"array": 5, "tensor": {"shape": [2], "float_data": [2, 4]}})");
  Call("t_wait", {5}, {2});
  Put(12, {1, 1});
  Define(R"("name": "sgd", "attributes": {"learning_rate": 1, "momentum": 0.5})", R"({"array": 2, "states": {"mom": 30}})");
  Step();
  Step();
  EXPECT_GT(pending(), 0);
  const uint64_t asked = Do(R"("fetch": {"arrays": [2, 30]})");
  EXPECT_FALSE(IsAnswered(asked));
  WaitingCalls::Get().Next().Complete();
  EXPECT_TRUE(Await(asked).failures().empty());
  EXPECT_THAT(Values(2), ElementsAre(4 - 1 - 1.5, 8 - 1 - 1.5));
  EXPECT_THAT(Values(30), ElementsAre(-1.5, -1.5));
}

TEST_F(SessionOptimizerTest, SaysWhatIsWrongWithADefinition) {
  PutWeights(1);
  Define(R"("name": "adma")", R"({"array": 1})");
  ExpectNoted(Code::kInvalidArgument, "no optimizer 'adma'");
  Step();
  ExpectPoisoned(1, Code::kInvalidArgument, "no optimizer 'adma'");
  Define(R"("name": "adam", "attributes": {"beta3": 1})", R"({"array": 2})");
  ExpectNoted(Code::kInvalidArgument, "beta3");
  Define("", R"({"array": 2})");
  ExpectNoted(Code::kInvalidArgument, "needs a name");
  Define(R"("name": "sgd")", R"({"array": 2}, {"array": 2})");
  ExpectNoted(Code::kInvalidArgument, "names array 2 twice");
  Define(R"("name": "sgd")", R"({"array": 0})");
  ExpectNoted(Code::kInvalidArgument, "is 0");
  Define(R"("name": "adam")", R"({"array": 2, "states": {"mom": 7}})");
  ExpectNoted(Code::kInvalidArgument, "state 'mom' of array 2 is none of adam's: mean, var, weight32");
  Do(R"("define_optimizer": {"definition": {"name": "sgd"}})");
  ExpectNoted(Code::kInvalidArgument, "is 0");
}

TEST_F(SessionOptimizerTest, SaysWhatIsWrongWithAStep) {
  const auto expect_failure = [this](const std::string& weight, const std::string& step, const std::string& says) {
    SCOPED_TRACE(step);
    PutWeights(1);
    Define(R"("name": "adam")", weight);
    Step(step);
    ExpectPoisoned(1, Code::kInvalidArgument, says);
  };
  Step();
  ExpectNoted(Code::kInvalidArgument, "there is no optimizer 1");
  const std::string both = R"({"array": 1, "name": "fc.weight"}, {"array": 2})";
  expect_failure(both, R"(, "learning_rates": [1, 2, 3])", "learning_rates has 3 elements for 2 arrays");
  expect_failure(both, R"(, "gradients": [11])", "gradients has 1 elements for 2 arrays");
  expect_failure(both, R"(, "updates": [0])", "counted from 1 on");
  expect_failure(both, R"(, "weights": [1, 0])", "rising order");
  expect_failure(both, R"(, "weights": [2])", "places below 2");
  expect_failure(both, R"(, "gradients": [11, 99])", "there is no array 99");
  expect_failure(both, R"(, "gradients": [12, 12])", "the gradient of array 1 (fc.weight) is float32[2], expected the shape [2,2]");
  expect_failure(both + R"(, {"array": 77})", "", "there is no array 77");
  Put(6, {1});
  expect_failure(R"({"array": 1, "states": {"mean": 6}})", "", "state 'mean' of array 1 is float32[1], expected the shape [2,2]");
  expect_failure(R"({"array": 1, "states": {"weight32": 6}})", "", "array 1 is float32, which has no state 'weight32'");
  PutMatrix(7, {1, 1, 1, 1});
  expect_failure(R"({"array": 1}, {"array": 7})", "", "array 7 has no gradient");
  Do(R"("free": {"optimizers": [1]})");
  Step();
  ExpectNoted(Code::kInvalidArgument, "was freed");
}

TEST_F(SessionOptimizerTest, AFailureIsThatOfTheWeightsAndTheStatesStay) {
  PutWeights(1);
  for (const std::string optimizer : {"adam", "adagrad"}) {
    SCOPED_TRACE(optimizer);
    const std::string state = optimizer == "adam" ? "var" : "history";
    PutWeights(1);
    Define(R"("name": ")" + optimizer + "\"", R"({"array": 1, "states": {")" + state + R"(": 30}}, {"array": 2})");
    Differentiate(1);
    Step();
    const std::vector<float> history = Values(30);
    Prepare(3, "reshape", R"x("shape": "(1,2)")x");
    Invoke(3, {2}, {12});
    Step();
    ExpectPoisoned(1, Code::kInvalidArgument, "");
    EXPECT_THAT(Fetch({2}).failures_size(), 1);
    EXPECT_EQ(Values(30), history);
    PutWeights(1);
    Put(12, {1, 1});
    Step();
    EXPECT_THAT(Values(2), Not(testing::IsEmpty())) << "goes on";
    EXPECT_NE(Values(30), history);
    Do(R"("free": {"arrays": [12, 30]})");
  }
}

TEST_F(SessionOptimizerTest, StatesAreChargedToTheSession) {
  Limits limits;
  limits.max_session_bytes = 20'000;
  Open(limits);
  Put(1, std::vector<float>(1000));
  Put(2, std::vector<float>(1000));
  Define(R"("name": "sgd", "attributes": {"momentum": 0.9})", R"({"array": 1})");
  Step(R"(, "gradients": [2])");
  EXPECT_THAT(Values(1), testing::SizeIs(1000));
  Do(R"("free": {"optimizers": [1]})");
  replies_.clear(), attachments_.clear();
  Define(R"("name": "ftml")", R"({"array": 1})");
  Step(R"(, "gradients": [2])");
  ExpectPoisoned(1, Code::kResourceExhausted, "--max_session_bytes");
}

TEST_F(SessionOptimizerTest, DefinitionsAreLimited) {
  Limits limits;
  limits.max_session_queue_bytes = 2'000;
  Open(limits);
  Put(1, {1});
  Define(R"("name": "adam")", R"({"array": 1}, {"array": 2}, {"array": 3}, {"array": 4})");
  ExpectNoted(Code::kResourceExhausted, "--max_session_queue_bytes");
  Define(R"("name": "sgd")", R"({"array": 1})");
  ExpectNothingNoted();
}

}  // namespace
}  // namespace gluond::server
