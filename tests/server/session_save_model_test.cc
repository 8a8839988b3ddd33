// SaveAsModel: a net is trained by commands, saved as a model, and trained on by both.

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/server/session_models_fixture.h"

namespace gluond::server {
namespace {

TEST_F(SessionModelsTest, AModelGoesOnWhereTheSessionWasBitForBit) {
  DefineNet(*client_);
  for (int step = 0; step < 3; ++step) TrainInSession(*client_, step);
  const v1::Model model = Succeed(client_->Ask(SaveCommand("net", 3)));
  EXPECT_EQ(model.name(), "net");
  EXPECT_EQ(model.device(), "cpu");
  EXPECT_EQ(model.version(), 1u);
  EXPECT_EQ(model.step(), 3);
  EXPECT_TRUE(model.has_trainer());
  ASSERT_EQ(model.outputs_size(), 1);
  EXPECT_EQ(model.outputs(0).name(), "scores");
  EXPECT_THAT(model.outputs(0).shape(), ElementsAre(-1, 3));
  ASSERT_EQ(model.parameters_size(), 8);
  EXPECT_EQ(model.parameters(0).name(), "fc1_weight");
  EXPECT_THAT(model.parameters(0).shape(), ElementsAre(8, 4));
  EXPECT_TRUE(model.parameters(0).initialized());
  EXPECT_EQ(model.parameters(4).kind(), v1::Variable::AUXILIARY) << model.parameters(4).name();
  EXPECT_FALSE(model.has_graph());

  EXPECT_EQ(Parameters("net"), ArraysOf(*client_));
  EXPECT_EQ(PredictByModel("net", 7), PredictInSession(*client_, 7));
  for (int step = 3; step < 6; ++step) {
    TrainModel("net", step);
    EXPECT_NE(Parameters("net"), ArraysOf(*client_)) << "independent";
    TrainInSession(*client_, step);
    EXPECT_EQ(Parameters("net"), ArraysOf(*client_)) << step;
  }
  EXPECT_EQ(PredictByModel("net", 7), PredictInSession(*client_, 7));
  EXPECT_EQ(Get("net").step(), 6);
}

TEST_F(SessionModelsTest, AModelHasWhatItsVariablesSay) {
  DefineNet(*client_);
  v1::Command command = SaveCommand("net");
  v1::Command::SaveAsModel& save = *command.mutable_save_as_model();
  save.clear_states();
  save.clear_outputs();
  *save.mutable_parameters(0)->mutable_variable() = Json<v1::Variable>(R"({"name": "fc1_weight", "gradReq": "NULL",
      "wdMult": 0.5, "initializer": {"name": "xavier"}, "shape": [8, 4]})");
  *save.mutable_parameters(1)->mutable_variable() = Json<v1::Variable>(R"({"name": "fc1_bias", "lrMult": 2})");
  (*save.mutable_updates())["fc2_bias"] = 5;
  const v1::Model model = Succeed(client_->Ask(command));
  EXPECT_EQ(model.outputs(0).name(), "fc2");
  EXPECT_EQ(model.parameters(0).grad_req(), v1::Variable::NULL_);
  EXPECT_EQ(model.parameters(0).wd_mult(), 0.5);
  EXPECT_EQ(model.parameters(0).initializer().name(), "Xavier");
  EXPECT_EQ(model.parameters(1).lr_mult(), 2);
  const auto before = Parameters("net");
  TrainModel("net", 0);
  const auto after = Parameters("net");
  EXPECT_EQ(before.at("fc1_weight"), after.at("fc1_weight"));
  EXPECT_NE(before.at("fc2_bias"), after.at("fc2_bias"));
}

TEST_F(SessionModelsTest, AModelWithoutATrainerPredicts) {
  DefineNet(*client_);
  v1::Command command = SaveCommand("net");
  command.mutable_save_as_model()->clear_trainer();
  command.mutable_save_as_model()->clear_states();
  EXPECT_FALSE(Succeed(client_->Ask(command)).has_trainer());
  EXPECT_EQ(PredictByModel("net", 1), PredictInSession(*client_, 1));
}

TEST_F(SessionModelsTest, AModelIsReplacedOnRequestOnly) {
  SaveNet();
  TrainInSession(*client_, 3);
  ExpectFailure(client_->Ask(SaveCommand("net", 4)), Code::kAlreadyExists, "there is a model 'net' already");
  EXPECT_EQ(Get("net").step(), 3);
  v1::Command command = SaveCommand("net", 4);
  command.mutable_save_as_model()->set_replace(true);
  EXPECT_EQ(Succeed(client_->Ask(command)).step(), 4);
  EXPECT_EQ(Parameters("net"), ArraysOf(*client_));
}

TEST_F(SessionModelsTest, AClosedSessionsModelIsThere) {
  DefineNet(*client_);
  client_->Do(SaveCommand("net"));
  EXPECT_TRUE(client_->Close().ok());
  EXPECT_EQ(Get("net").parameters_size(), 8);
}

TEST_F(SessionModelsTest, ACheckpointOfItLoads) {
  SaveNet();
  Call(models_, &v1::ModelService::Stub::SaveCheckpoint, R"({"model": "net", "checkpoint": "c"})");
  Call(models_, &v1::ModelService::Stub::LoadCheckpoint, R"({"checkpoint": "c", "model": "copy"})");
  TrainModel("net", 3);
  TrainModel("copy", 3);
  EXPECT_EQ(Parameters("net"), Parameters("copy"));
}

TEST_F(SessionModelsTest, RefusesWhatCannotBeAModel) {
  DefineNet(*client_);
  struct Case {
    std::string name;
    std::function<void(v1::Command::SaveAsModel&)> change;
    Code code;
    std::string says;
  };
  const auto variable = [](v1::Command::SaveAsModel& save, int i) { return save.mutable_parameters(i)->mutable_variable(); };
  const std::vector<Case> cases = {
      {"Name", [](auto& save) { save.set_model("a/b"); }, Code::kInvalidArgument, "a/b"},
      {"Device", [](auto& save) { save.set_device("gpu:7"); }, Code::kNotFound, "it has: cpu"},
      {"NoGraph", [](auto& save) { save.set_graph(9); }, Code::kInvalidArgument, "there is no graph 9"},
      {"NoArray", [](auto& save) { save.mutable_parameters(0)->set_array(999); }, Code::kInvalidArgument, "there is no array 999"},
      {"VariableOfNothing", [](auto& save) { save.clear_inputs(); }, Code::kInvalidArgument,
       "variable 'data' is neither among the inputs nor among the parameters; add it to one of them"},
      {"Twice", [](auto& save) { *save.add_parameters() = save.parameters(0); }, Code::kInvalidArgument,
       "'fc1_weight' is declared twice"},
      {"UnreadInput", [](auto& save) { save.add_inputs()->set_name("dta"); }, Code::kInvalidArgument,
       "'dta' is declared, but nothing reads it"},
      {"UnreadParameter",
       [&](auto& save) {
         *save.add_parameters() = save.parameters(0);
         variable(save, 8)->set_name("fc1_wait");
       },
       Code::kInvalidArgument, "'fc1_wait' is declared, but nothing reads it"},
      {"InputWithAnArray", [&](auto& save) { variable(save, 0)->set_kind(v1::Variable::INPUT); }, Code::kInvalidArgument,
       "'fc1_weight': it is declared as an input"},
      {"AuxiliaryInput",
       [](auto& save) {
         save.add_inputs()->set_name("bn_mean");
         save.mutable_parameters()->DeleteSubrange(4, 1);
       },
       Code::kInvalidArgument, "'bn_mean' is written by an operator"},
      {"Shape", [&](auto& save) { variable(save, 1)->add_shape(9); }, Code::kInvalidArgument,
       "parameter 'fc1_bias': its array is float32[8], expected float32[9] as it is declared"},
      {"Dtype", [&](auto& save) { variable(save, 1)->set_dtype(v1::Tensor::FLOAT16); }, Code::kInvalidArgument,
       "its array is float32[8], expected float16"},
      {"ShapeOfTheGraph", [](auto& save) { save.mutable_parameters(0)->set_array(2); }, Code::kInvalidArgument, "fc1"},
      {"GradientOfAState", [&](auto& save) { variable(save, 4)->set_grad_req(v1::Variable::WRITE); }, Code::kInvalidArgument,
       "an auxiliary state has no gradient"},
      {"Outputs", [](auto& save) { save.add_outputs("more"); }, Code::kInvalidArgument,
       "`outputs` has 2 names, expected one for each of the graph's 1 outputs"},
      {"OutputWithoutName", [](auto& save) { save.set_outputs(0, ""); }, Code::kInvalidArgument, "name of its own"},
      {"Loss", [](auto& save) { save.mutable_trainer()->mutable_loss()->set_name("MyLoss"); }, Code::kInvalidArgument, "(known: "},
      {"Optimizer", [](auto& save) { save.mutable_trainer()->mutable_optimizer()->set_name("mine"); }, Code::kInvalidArgument,
       "(known: "},
      {"Objective", [](auto& save) { save.mutable_trainer()->clear_loss(); }, Code::kInvalidArgument, "`loss` or `loss_output`"},
      {"Prediction", [](auto& save) { save.mutable_trainer()->set_prediction("fc2"); }, Code::kNotFound, "scores"},
      {"State", [](auto& save) { save.mutable_states(0)->set_name("fc1_weight/var"); }, Code::kInvalidArgument,
       "whose states are mom; give the states of this optimizer"},
      {"StateOfNoParameter", [](auto& save) { save.mutable_states(0)->set_name("fc9_weight/mom"); }, Code::kNotFound,
       "there is no parameter 'fc9_weight'"},
      {"NoStates", [](auto& save) { save.mutable_trainer()->clear_optimizer(); }, Code::kInvalidArgument,
       "for which this optimizer keeps no state; leave it out"},
      {"ShapeOfAState", [](auto& save) { save.mutable_states(0)->set_array(202); }, Code::kInvalidArgument,
       "'fc1_weight/mom' is float32[8]; want float32[8,4]"},
      {"NoTrainer", [](auto& save) { save.clear_trainer(); }, Code::kInvalidArgument, "set `trainer`, or leave them"},
      {"Step", [](auto& save) { save.set_step(-1); }, Code::kInvalidArgument, "step is -1; want 0 or more"},
      {"Updates", [](auto& save) { (*save.mutable_updates())["fc1_bias"] = -2; }, Code::kInvalidArgument,
       "`updates` of 'fc1_bias' is -2"},
      {"UpdatesOfNoParameter", [](auto& save) { (*save.mutable_updates())["fc1_bais"] = 2; }, Code::kNotFound, "'fc1_bais'"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    v1::Command command = SaveCommand("net");
    each.change(*command.mutable_save_as_model());
    ExpectFailure(client_->Ask(command), each.code, each.says);
    ExpectNoModel("net");
  }
  Succeed(client_->Ask(SaveCommand("net")));
}

TEST_F(SessionModelsTest, AFailedArraysFailureIsTheAnswer) {
  DefineNet(*client_);
  client_->Prepare(3, "elemwise_add");
  client_->Invoke(3, {kData, 999}, {2});
  const v1::Reply reply = client_->Ask(SaveCommand("net"));
  ExpectFailure(reply, Code::kInvalidArgument, "there is no array");
  EXPECT_EQ(reply.failures(0).array(), 2u);
  ExpectNoModel("net");
}

TEST_F(SessionModelsTest, AModelsMemoryIsLimited) {
  client_.reset();
  Limits limits;
  limits.max_model_bytes = 1024;
  StartServer(limits);
  client_ = std::make_unique<Client>(channel_);
  DefineNet(*client_);
  ExpectFailure(client_->Ask(SaveCommand("net")), Code::kResourceExhausted, "--max_model_bytes");
  ExpectNoModel("net");
}

// Operators that a client computes.

TEST_F(SessionModelsCustomTest, AClientsOwnOperatorIsRefused) {
  Provider provider(address(), {"square"}, &RightAnswer, scope_, /*shared=*/false);
  DefineCustom();
  const v1::Reply reply = client_->Ask(SaveCustom());
  ExpectFailure(reply, Code::kFailedPrecondition,
                "node 'mid': custom operator 'square' is computed by one client for itself alone");
  EXPECT_THAT(reply.failures(0).status().message(), Not(HasSubstr(scope_)));
  ExpectNoModel("squares");
}

TEST_F(SessionModelsCustomTest, ASharedOneIsComputedByWhoeverSharesIt) {
  {
    Provider provider(address(), {"square"}, &RightAnswer, scope_, /*shared=*/true);
    DefineCustom();
    Succeed(client_->Ask(SaveCustom()));
  }
  Provider another(address(), {"square"});
  const auto predicted = Call(models_, &v1::ModelService::Stub::Predict,
                              R"({"model": "squares", "inputs": {"data": {"shape": [2], "float_data": [2, 3]}}})");
  EXPECT_THAT(predicted.outputs().at("y").float_data(), ElementsAre(4.5, 9.5));
}

// An array whose value waits for a client holds up the command that needs it, and nothing else.
TEST_F(SessionModelsCustomTest, WaitsForValuesWhileOthersGoOn) {
  Provider provider(
      address(), {"square"},
      [](const v1::Callback& callback) { return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback); }, scope_);
  DefineCustom();
  client_->Put(5, {1}, {2});
  client_->Do(R"("run_graph": {"graph": 1, "inputs": [5, 1], "outputs": [6]})");
  v1::Command command = SaveCustom();
  command.mutable_save_as_model()->mutable_parameters(0)->set_array(6);
  const uint64_t save = client_->Do(command);
  client_->Put(6, {1}, {100});  // The name's next value is none of the model's.
  client_->Bits(5);
  EXPECT_FALSE(client_->IsAnswered(save));
  Client(channel_).Ask(R"("wait_all": {})");
  ExpectNoModel("squares");
  provider.WaitFor(1, &v1::Callback::has_forward);
  for (const v1::Callback& callback : provider.Seen()) {
    if (callback.has_forward()) provider.stream().Answer(RightAnswer(callback));
  }
  Succeed(client_->Await(save));
  const auto parameters = Parameters("squares");
  float shift = 0;
  std::memcpy(&shift, parameters.at("shift").data(), sizeof(shift));
  EXPECT_EQ(shift, 4.5f);
}

class SessionModelsAuditTest : public SessionModelsTest {
 protected:
  void Configure(ServerOptions* options) override {
    SessionModelsTest::Configure(options);
    options->audit = audit_.sink();
  }

  Log audit_;
};

TEST_F(SessionModelsAuditTest, EachModelMadeOrNotHasALine) {
  SaveNet();
  client_->Ask(SaveCommand("net"));
  v1::Command none = SaveCommand("none");
  none.mutable_save_as_model()->set_graph(9);
  client_->Ask(none);
  client_->Invoke(9, {1}, {50});  // There is no call 9: the array has no value.
  v1::Command failed = SaveCommand("failed");
  failed.mutable_save_as_model()->mutable_parameters(0)->set_array(50);
  client_->Ask(failed);
  v1::Command twice = SaveCommand("twice");
  *twice.mutable_save_as_model()->add_parameters() = twice.save_as_model().parameters(0);
  client_->Ask(twice);
  const std::vector<std::string> lines = audit_.Take();
  const auto of = [&lines](absl::string_view model) {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      if (absl::StrContains(line, absl::StrCat("\"target\":\"", model, "\""))) found.push_back(line);
    }
    return found;
  };
  const auto line = [](absl::string_view model, absl::string_view code) {
    return HasSubstr(absl::StrCat(R"("method":"/gluond.v1.SessionService/Run","command":"SaveAsModel","target":")", model,
                                  R"(","code":")", code, R"(","peer":)"));
  };
  EXPECT_THAT(of("net"), ElementsAre(line("net", "OK"), line("net", "ALREADY_EXISTS")));
  EXPECT_THAT(of("none"), ElementsAre(line("none", "INVALID_ARGUMENT")));
  EXPECT_THAT(of("failed"), ElementsAre(line("failed", "INVALID_ARGUMENT")));
  EXPECT_THAT(of("twice"), ElementsAre(line("twice", "INVALID_ARGUMENT")));
}

}  // namespace
}  // namespace gluond::server
