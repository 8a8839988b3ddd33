// GRPCInferenceService: what the open protocol's clients ask, in each form, and what becomes of bad requests.

#include <tuple>

#include "client/cpp/connect.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

class InferenceServiceTest : public ServingTest {
 protected:
  // A model that gives each of its inputs back, one of each type.
  void PublishEcho(const std::string& dtype, const std::string& options = R"("max_batch_size": 8)") {
    Call(models_, &v1::ModelService::Stub::DefineModel,
         absl::StrCat(R"({"model": "echo", "replace": true, "graph":
        {"nodes": [{"name": "y", "op": "identity", "inputs": ["x"]}], "outputs": ["y"]},
        "variables": [{"name": "x", "kind": "INPUT", "shape": [-1, 3], "dtype": ")",
                      dtype, R"("}]})"));
    Publish(absl::StrCat(R"(, "options": {)", options, "}"), StatusCode::OK, "echo");
  }
  static ModelInferRequest Echo(const std::string& datatype, const std::string& contents) {
    return Json<ModelInferRequest>(absl::StrCat(R"({"model_name": "echo", "inputs": [{"name": "x", "datatype": ")", datatype,
                                                R"(", "shape": [1, 3], "contents": {)", contents, "}}]}"));
  }
};

TEST_F(InferenceServiceTest, TellsOfTheServer) {
  EXPECT_TRUE(Call(infer_, &Inference_::ServerLive, "{}").live());
  EXPECT_TRUE(Call(infer_, &Inference_::ServerReady, "{}").ready());
  const auto metadata = Call(infer_, &Inference_::ServerMetadata, "{}");
  EXPECT_EQ(metadata.name(), "gluond");
  EXPECT_THAT(metadata.extensions(), testing::Contains("statistics"));
  EXPECT_TRUE(Call(infer_, &Inference_::RepositoryIndex, "{}").models().empty());
}

TEST_F(InferenceServiceTest, TellsOfAVersion) {
  Publish();
  Publish(R"(, "labels": ["stable"], "options": {"max_batch_size": 16, "preferred_batch_sizes": [4, 8],
      "max_queue_delay_us": "250", "priority_levels": 3, "default_priority": 2, "max_queue_size": 9,
      "default_timeout_us": "7000", "allow_timeout_override": true, "instances": 2,
      "delay_late_requests": true})");
  EXPECT_TRUE(Call(infer_, &Inference_::ModelReady, R"({"name": "mlp"})").ready());
  EXPECT_TRUE(Call(infer_, &Inference_::ModelReady, R"({"name": "mlp", "version": "1"})").ready());
  EXPECT_FALSE(Call(infer_, &Inference_::ModelReady, R"({"name": "mlp", "version": "3"})").ready());
  EXPECT_FALSE(Call(infer_, &Inference_::ModelReady, R"({"name": "none"})").ready());
  const auto metadata = Call(infer_, &Inference_::ModelMetadata, R"({"name": "mlp"})");
  EXPECT_THAT(metadata.versions(), ElementsAre("1", "2"));
  EXPECT_EQ(metadata.inputs(0).name(), "data");
  EXPECT_EQ(metadata.inputs(0).datatype(), "FP32");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 4));
  EXPECT_THAT(metadata.outputs(0).shape(), ElementsAre(-1, 3));
  const auto config = Call(infer_, &Inference_::ModelConfig, R"({"name": "mlp", "version": "stable"})").config();
  EXPECT_EQ(config.max_batch_size(), 16);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(4)) << "the batch's axis is hidden";
  EXPECT_THAT(config.output(0).dims(), ElementsAre(3));
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_FP32);
  EXPECT_EQ(config.instance_group(0).count(), 2);
  const auto& batching = config.dynamic_batching();
  EXPECT_THAT(batching.preferred_batch_size(), ElementsAre(4, 8));
  EXPECT_EQ(batching.max_queue_delay_microseconds(), 250u);
  EXPECT_EQ(batching.priority_levels(), 3u);
  EXPECT_EQ(batching.default_priority_level(), 2u);
  EXPECT_EQ(batching.default_queue_policy().max_queue_size(), 9u);
  EXPECT_EQ(batching.default_queue_policy().default_timeout_microseconds(), 7000u);
  EXPECT_TRUE(batching.default_queue_policy().allow_timeout_override());
  EXPECT_EQ(batching.default_queue_policy().timeout_action(), inference::ModelQueuePolicy::DELAY);
  const auto alone = Call(infer_, &Inference_::ModelConfig, R"({"name": "mlp", "version": "1"})").config();
  EXPECT_EQ(alone.max_batch_size(), 0);
  EXPECT_THAT(alone.input(0).dims(), ElementsAre(-1, 4));
  EXPECT_FALSE(alone.has_dynamic_batching());
}

TEST_F(InferenceServiceTest, EachTypeComesBackTypedAndRaw) {
  struct Case {
    const char* dtype;
    const char* datatype;
    const char* contents;  // Null: raw only.
    std::string raw;
  };
  const std::string f32("\0\0\x80\x3f\0\0\0\xc0\0\0\x40\x40", 12);
  for (const Case& c : std::vector<Case>{{"FLOAT32", "FP32", R"("fp32_contents": [1, -2, 3])", f32},
                                         {"FLOAT64", "FP64", R"("fp64_contents": [0, 0, 0])", std::string(24, '\0')},
                                         {"INT32", "INT32", R"("int_contents": [-1, 0, 2147483647])",
                                          std::string("\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\x7f", 12)},
                                         {"INT8", "INT8", R"("int_contents": [-128, 0, 127])", std::string("\x80\0\x7f", 3)},
                                         {"UINT8", "UINT8", R"("uint_contents": [255, 0, 7])", std::string("\xff\0\x07", 3)},
                                         {"INT64", "INT64", R"("int64_contents": ["-1", "0", "1"])",
                                          std::string(8, '\xff') + std::string(8, '\0') + std::string("\1\0\0\0\0\0\0\0", 8)},
                                         {"FLOAT16", "FP16", nullptr, std::string("\0\x3c\0\xc0\0\0", 6)},
                                         {"BFLOAT16", "BF16", nullptr, std::string("\x80\x3f\0\xc0\0\0", 6)},
                                         {"BOOL", "BOOL", R"("bool_contents": [true, false, true])", std::string("\1\0\1", 3)}}) {
    SCOPED_TRACE(c.datatype);
    PublishEcho(c.dtype);
    ModelInferRequest raw = Echo(c.datatype, "");
    raw.add_raw_input_contents(c.raw);
    EXPECT_EQ(Ask(raw).raw_output_contents(0), c.raw);
    EXPECT_EQ(Ask(raw).outputs(0).datatype(), c.datatype);
    EXPECT_THAT(Ask(raw).outputs(0).shape(), ElementsAre(1, 3));
    if (c.contents == nullptr) continue;
    EXPECT_EQ(Ask(Echo(c.datatype, c.contents)).raw_output_contents(0), c.raw);
  }
}

TEST_F(InferenceServiceTest, BadRequestsAreToldWhatIsWrong) {
  PublishEcho("FLOAT32", R"("max_batch_size": 4)");
  const std::string good = R"({"name": "x", "datatype": "FP32", "shape": [1, 3], "contents": {"fp32_contents": [1, 2, 3]}})";
  const auto input = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return absl::StrCat(R"("inputs": [)", text, "]");
  };
  for (const auto& [json, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "input 'x' of shape [?,3] is missing"},
           {input("\"x\"", "\"z\""), "there is no input 'z'"},
           {input("\"x\"", "\"\""), "there is no input ''"},
           {absl::StrCat(R"("inputs": [)", good, ",", good, "]"), "given twice"},
           {input("FP32", "FP31"), "there is no datatype 'FP31'"},
           {input("FP32", "BYTES"), "BYTES is no model's"},
           {input("FP32", "INT32"), "INT32 values belong in int_contents, but fp32_contents"},
           {input("FP32", "FP16"), "raw_input_contents only"},
           {input("[1, 3]", "[3]"), "has shape [3], expected [?,3]"},
           {input("[1, 3]", "[1, 4]"), "shape [1,4] has 4 elements, but fp32_contents has 3"},
           {input("[1, 3]", "[-1, 3]"), "negative"},
           {input("[1, 3]", "[\"4611686018427387904\", 3]"), "elements"},
           {input("[1, 3]", "[0, 3]"), "shape [0,3] has 0 elements"},
           {input("[1, 2, 3]", "[1, 2, 3, 4]"), "has 4"},
           {input("\"contents\"", R"("parameters": {"shared_memory_region": {"string_param": "a"}}, "contents")"), "shared memory"},
           {absl::StrCat(input("x", "x"), R"(, "raw_input_contents": ["AAAA"])"), "one of these ways"},
           {absl::StrCat(input("\"fp32_contents\": [1, 2, 3]", ""), R"(, "raw_input_contents": ["AAAA"])"),
            "takes 12 bytes, but raw_input_contents[0] has 3"},
           {absl::StrCat(input("\"fp32_contents\": [1, 2, 3]", ""), R"(, "raw_input_contents": ["AAAA", "AAAA"])"),
            "2 entries for 1 inputs"},
           {absl::StrCat(input("x", "x"), R"(, "outputs": [{"name": "z"}])"), "there is no output 'z'"},
           {absl::StrCat(input("x", "x"), R"(, "outputs": [{"name": "else"}])"), "there is no output 'else' (outputs: y)"},
           {absl::StrCat(input("x", "x"), R"(, "outputs": [{"name": "y"}, {"name": "y"}])"), "wanted twice"},
           {absl::StrCat(input("x", "x"), R"(, "id": ")", std::string(1025, 'i'), "\""), "the id has 1025 bytes"},
           {absl::StrCat(input("x", "x"), R"(, "outputs": [{"name": "y", "parameters": {"classification":
               {"string_param": "1"}}}])"),
            "wants a number"},
           {absl::StrCat(input("x", "x"), R"(, "parameters": {"priority": {"int64_param": "-1"}})"), "wants a number"},
           {absl::StrCat(input("x", "x"), R"(, "parameters": {"sequence_id": {"int64_param": "1"}})"), "keeps a state"},
           {absl::StrCat(input("x", "x"), R"(, "parameters": {"sequence_end": {"bool_param": true}})"), "keeps a state"},
           {absl::StrCat(input("x", "x"), R"(, "parameters": {"triton_enable_empty_final_response": {"int64_param": "1"}})"),
            "bool_param"},
           {absl::StrCat(input("x", "x"), R"(, "parameters": {"triton_x": {"bool_param": true}})"), "Triton's own"}}) {
    SCOPED_TRACE(json);
    Ask(Json<ModelInferRequest>(absl::StrCat(R"({"model_name": "echo")", json.empty() ? "" : ", ", json, "}")),
        StatusCode::INVALID_ARGUMENT);
    ExpectMessage(says);
  }
  ModelInferRequest many = Json<ModelInferRequest>(R"({"model_name": "echo", "inputs": [{"name": "x", "datatype": "FP32",
      "shape": [5, 3]}]})");
  many.add_raw_input_contents(std::string(60, '\0'));
  Ask(many, StatusCode::INVALID_ARGUMENT);
  ExpectMessage("5 rows");
  EXPECT_EQ(Ask(Json<ModelInferRequest>(absl::StrCat(R"({"model_name": "echo", "id": "7", "parameters": {"mine":
      {"string_param": "x"}, "sequence_length": {"int64_param": "1"}}, "inputs": [)",
                                                     good, "]}")))
                .id(),
            "7")
      << "others' parameters are theirs";
  const auto statistics = Call(infer_, &Inference_::ModelStatistics, R"({"name": "echo"})").model_stats(0);
  EXPECT_EQ(statistics.inference_stats().success().count(), 1u);
}

TEST_F(InferenceServiceTest, TheClientInCppAsksAnyVersion) {
  PublishEcho("FLOAT64", R"("max_batch_size": 2)");
  const auto client = client::Connect(channel_);
  ASSERT_TRUE(client.ok()) << client.status();
  const client::Model model = client->GetModel("echo");
  const client::Tensors inputs = {{"x", client::Tensor::Of<double>({2, 3}, {1, -2, 3, 0.5, 1e300, 0})}};
  for (const char* version : {"", "1", "latest"}) {
    const absl::StatusOr<client::Tensors> outputs = model.Infer(inputs, version);
    if (std::string(version) == "latest") {
      EXPECT_EQ(outputs.status().code(), absl::StatusCode::kNotFound);
      continue;
    }
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(outputs->at("y"), inputs.at("x"));
  }
  EXPECT_THAT(model.Infer({{"x", client::Tensor::Of<float>({1, 3}, {1, 2, 3})}}).status().message(),
              HasSubstr("input 'x' has the type"));
}

TEST_F(InferenceServiceTest, ClassesAreTextsOfTheLargest) {
  PublishEcho("FLOAT32");
  ModelInferRequest request = Json<ModelInferRequest>(R"({"model_name": "echo", "inputs": [{"name": "x", "datatype": "FP32",
      "shape": [2, 3], "contents": {"fp32_contents": [0.25, 4, "NaN", 7, 7, -1]}}],
      "outputs": [{"name": "y", "parameters": {"classification": {"int64_param": "2"}}}]})");
  const ModelInferResponse response = Ask(request);
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, 2));
  std::string expected;
  for (const char* text : {"4.000000:1", "0.250000:0", "7.000000:0", "7.000000:1"}) {
    expected += std::string("\x0a\0\0\0", 4) + text;
  }
  EXPECT_EQ(response.raw_output_contents(0), expected);
}

TEST_F(InferenceServiceTest, ClassesOfIntegersAreComparedAndToldAsIntegers) {
  for (const auto& [dtype, values, want] : std::vector<std::tuple<const char*, const char*, std::vector<std::string>>>{
           {"INT32", R"("int_contents": [-7, 5, 2])", {"5:1", "2:2", "-7:0"}},
           {"INT64",
            R"("int64_contents": ["9007199254740992", "-1", "9007199254740993"])",
            {"9007199254740993:2", "9007199254740992:0", "-1:1"}}}) {
    PublishEcho(dtype);
    ModelInferRequest request = Echo(dtype, values);
    request.add_outputs()->set_name("y");
    (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(3);
    std::string expected;
    for (const std::string& text : want) expected += std::string(1, static_cast<char>(text.size())) + std::string(3, '\0') + text;
    EXPECT_EQ(Ask(request).raw_output_contents(0), expected);
  }
}

TEST_F(InferenceServiceTest, PrioritiesAndTimeoutsThatAVersionDoesNotKnowAreIgnored) {
  Publish();
  Publish(R"(, "options": {"max_batch_size": 8, "priority_levels": 2})");
  for (const char* version : {"1", "2"}) {
    ModelInferRequest request = Rows(1, version);
    (*request.mutable_parameters())["priority"].set_uint64_param(UINT64_MAX);
    (*request.mutable_parameters())["timeout"].set_int64_param(1);
    EXPECT_EQ(Ask(request).model_version(), version);
  }
}

TEST_F(InferenceServiceTest, WhatIsToldOfAModelIsNotDrawnByLot) {
  Publish(R"(, "options": {"max_batch_size": 8})");
  Publish(R"(, "options": {"max_batch_size": 16})");
  Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "labels": {"stable": 1}, "weights": {"1": 1, "2": 1}})");
  const auto size = [&] { return Call(infer_, &Inference_::ModelConfig, R"({"name": "mlp"})").config().max_batch_size(); };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(size(), 8) << "the label `stable`";
  Call(serving_, &Serving::RouteVersions, R"({"served": "mlp", "labels": {"stable": 0}})");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(size(), 16) << "the highest";
}

TEST_F(InferenceServiceTest, AnInferenceWithoutAnAnswerHasFailed) {
  Limits limits;
  limits.max_message_bytes = 64 << 10;
  Restart(limits);
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "twice", "graph": {"nodes": [
      {"name": "y", "op": "identity", "inputs": ["x"]}, {"name": "z", "op": "identity", "inputs": ["x"]}],
      "outputs": ["y", "z"]}, "variables": [{"name": "x", "kind": "INPUT", "shape": [-1, 4]}]})");
  Publish(R"(, "options": {"max_batch_size": 4096})", StatusCode::OK, "twice");
  const auto request = [](int64_t rows) {
    ModelInferRequest request = Rows(rows, "", "", "twice");
    request.mutable_inputs(0)->set_name("x");
    return request;
  };
  const auto statistics = [&] { return Call(infer_, &Inference_::ModelStatistics, R"({"name": "twice"})").model_stats(0); };
  Ask(request(3000), StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("--max_message_bytes");
  EXPECT_EQ(statistics().inference_stats().success().count(), 0u);
  EXPECT_EQ(statistics().inference_stats().fail().count(), 1u);
  EXPECT_EQ(statistics().last_inference(), 0u) << "a failure is none";
  EXPECT_EQ(Ask(request(1)).outputs_size(), 2);
  EXPECT_EQ(statistics().inference_stats().success().count(), 1u);
  EXPECT_EQ(statistics().inference_stats().fail().count(), 1u);
  EXPECT_GT(statistics().last_inference(), 0u);
}

// Two convolutions, each with its BatchNorm, whose running mean and variance are those of some steps.
TEST_F(InferenceServiceTest, AFoldedVersionAnswersAsItsModelAloneAndInABatch) {
  Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "cnn", "seed": "1", "block":
      {"block": "HybridSequential", "children": [
        {"block": "Conv2D", "attributes": {"channels": 8, "kernel_size": 3, "use_bias": false}},
        {"block": "BatchNorm"}, {"block": "Activation", "attributes": {"activation": "relu"}},
        {"block": "Conv2D", "attributes": {"channels": 8, "kernel_size": 3}}, {"block": "BatchNorm"},
        {"block": "Dense", "attributes": {"units": 3}}]},
      "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1, 8, 8]}]})");
  Call(models_, &v1::ModelService::Stub::InitializeParameters, R"({"model": "cnn"})");
  Call(training_, &v1::TrainingService::Stub::CreateTrainer, R"({"model": "cnn", "loss": {"name": "L2Loss"}, "optimizer":
      {"name": "sgd", "attributes": {"learning_rate": 0.01}}})");
  for (int i = 0; i < 5; ++i) {
    Call(training_, &v1::TrainingService::Stub::TrainStep,
         absl::StrCat(R"({"model": "cnn", "inputs": {
        "data": {"shape": [6, 1, 8, 8], "fill": {"normal": {"seed": ")",
                      i, R"("}}},
        "label": {"shape": [6, 3], "fill": {"constant": 1}}}})"));
  }
  const auto predicted = Call(models_, &v1::ModelService::Stub::Predict,
                              R"({"model": "cnn", "inputs": {"data": {"shape": [4, 1, 8, 8], "fill": {"constant": 0.5}}}})");
  const auto& want = predicted.outputs().begin()->second.float_data();
  const auto request = [](int64_t rows, const std::string& version) {
    ModelInferRequest request;
    request.set_model_name("cnn");
    request.set_model_version(version);
    auto* const input = request.add_inputs();
    input->set_name("data");
    input->set_datatype("FP32");
    for (const int64_t dim : {rows, int64_t{1}, int64_t{8}, int64_t{8}}) input->add_shape(dim);
    for (int64_t i = 0; i < rows * 64; ++i) input->mutable_contents()->add_fp32_contents(0.5f);
    return request;
  };
  Publish(R"(, "options": {"max_batch_size": 4})", StatusCode::OK, "cnn");
  Publish(R"(, "options": {"max_batch_size": 4, "batch_invariant": true})", PublishesInvariant(), "cnn");
  const std::vector<float> all = Floats(Ask(request(4, "1")));
  ASSERT_EQ(static_cast<int>(all.size()), want.size());
  for (int i = 0; i < want.size(); ++i) EXPECT_NEAR(all[i], want[i], 1e-4 * (1 + std::abs(want[i])));
  if (PublishesInvariant() != StatusCode::OK) return;
  std::vector<float> first = Floats(Ask(request(4, "2")));
  first.resize(3);
  EXPECT_EQ(Floats(Ask(request(1, "2"))), first) << "bit by bit";
}

TEST_F(InferenceServiceTest, TimesAreGivenToThoseWhoAsk) {
  Publish(R"(, "options": {"max_batch_size": 8})");
  ModelInferRequest request = Rows(3);
  EXPECT_TRUE(Ask(request).parameters().empty());
  (*request.mutable_parameters())["timing"].set_bool_param(true);
  const auto times = Ask(request).parameters();
  EXPECT_EQ(times.at("batch_size").int64_param(), 3);
  EXPECT_GT(times.at("queue_ns").int64_param(), 0);
  EXPECT_GT(times.at("compute_infer_ns").int64_param(), 0);
  EXPECT_GT(times.at("compute_output_ns").int64_param(), 0);
  EXPECT_GE(times.at("compute_input_ns").int64_param(), 0);
  (*request.mutable_parameters())["timing"].set_int64_param(1);
  Ask(request, StatusCode::INVALID_ARGUMENT);
  ExpectMessage("bool_param");
}

TEST_F(InferenceServiceTest, UnloadedVersionsComeBack) {
  Publish();
  const std::vector<float> before = Floats(Ask(Rows(2)));
  Call(infer_, &Inference_::RepositoryModelUnload, R"({"model_name": "mlp"})");
  Ask(Rows(2), StatusCode::UNAVAILABLE);
  EXPECT_FALSE(Call(infer_, &Inference_::ModelReady, R"({"name": "mlp"})").ready());
  const auto index = Call(infer_, &Inference_::RepositoryIndex, "{}");
  EXPECT_EQ(index.models(0).state(), "UNAVAILABLE");
  EXPECT_EQ(index.models(0).reason(), "it was unloaded");
  EXPECT_TRUE(Call(infer_, &Inference_::RepositoryIndex, R"({"ready": true})").models().empty());
  Call(infer_, &Inference_::RepositoryModelLoad, R"({"model_name": "mlp"})");
  EXPECT_EQ(Floats(Ask(Rows(2))), before);
  Call(infer_, &Inference_::RepositoryModelLoad, R"({"model_name": "none"})", StatusCode::NOT_FOUND);
  Call(infer_, &Inference_::RepositoryModelLoad, R"({"model_name": "mlp", "repository_name": "x"})", StatusCode::UNIMPLEMENTED);
  Call(infer_, &Inference_::RepositoryModelLoad, R"({"model_name": "mlp", "parameters": {"config": {"string_param": "x"}}})",
       StatusCode::INVALID_ARGUMENT);
}

TEST_F(InferenceServiceTest, WhatIsNotOfferedSaysSo) {
  EXPECT_TRUE(Call(infer_, &Inference_::SystemSharedMemoryStatus, "{}").regions().empty());
  Call(infer_, &Inference_::SystemSharedMemoryUnregister, "{}");
  Call(infer_, &Inference_::CudaSharedMemoryUnregister, "{}");
  Call(infer_, &Inference_::SystemSharedMemoryRegister, "{}", StatusCode::UNIMPLEMENTED);
  ExpectMessage("send tensors in requests");
  Call(infer_, &Inference_::CudaSharedMemoryRegister, "{}", StatusCode::UNIMPLEMENTED);
}

TEST_F(InferenceServiceTest, SettingsOfTheLogAreReadChangedAndChecked) {
  const auto on = [](const inference::LogSettingsResponse& response, const std::string& name) {
    return response.settings().at(name).bool_param();
  };
  auto settings = Call(infer_, &Inference_::LogSettings, "{}");
  EXPECT_FALSE(on(settings, "log_info")) << "there is no access log";
  EXPECT_TRUE(on(settings, "log_warning"));
  EXPECT_TRUE(on(settings, "log_error"));
  EXPECT_EQ(settings.settings().at("log_verbose_level").uint32_param(), 0u);
  EXPECT_EQ(settings.settings().at("log_format").string_param(), "ISO8601");

  settings = Call(infer_, &Inference_::LogSettings, R"({"settings": {"log_warning": {"bool_param": false},
      "log_verbose_level": {"uint32_param": 1}, "log_format": {"string_param": "ISO8601"}}})");
  EXPECT_FALSE(on(settings, "log_warning"));
  EXPECT_EQ(settings.settings().at("log_verbose_level").uint32_param(), 1u);
  log_.Take();
  Ask(Rows(1), StatusCode::NOT_FOUND);
  EXPECT_THAT(log_.Take(), testing::IsEmpty());

  for (const char* wrong : {R"("log_error": {"uint32_param": 0})", R"("log_verbose_level": {"uint32_param": 3})",
                            R"("log_verbose_level": {"bool_param": true})", R"("log_format": {"string_param": "default"})",
                            R"("log_colour": {"bool_param": true})"}) {
    // A mistake in one setting leaves all as they are.
    Call(infer_, &Inference_::LogSettings, absl::StrCat(R"({"settings": {"log_warning": {"bool_param": true}, )", wrong, "}}"),
         StatusCode::INVALID_ARGUMENT);
    EXPECT_FALSE(on(Call(infer_, &Inference_::LogSettings, "{}"), "log_warning")) << wrong;
  }
  Call(infer_, &Inference_::LogSettings, R"({"settings": {"log_info": {"bool_param": true}}})", StatusCode::FAILED_PRECONDITION);
  ExpectMessage("--access_log=FILE");
  Call(infer_, &Inference_::LogSettings, R"({"settings": {"log_file": {"string_param": "/tmp/x"}}})",
       StatusCode::PERMISSION_DENIED);
  Call(infer_, &Inference_::LogSettings, R"({"settings": {"log_warning": {"bool_param": true},
      "log_verbose_level": {"uint32_param": 0}}})");
  Ask(Rows(1), StatusCode::NOT_FOUND);
  EXPECT_THAT(log_.Take(), testing::Contains(HasSubstr("NOT_FOUND")));
}

TEST_F(InferenceServiceTest, TracesAreOff) {
  Publish();
  for (const char* request : {"{}", R"({"model_name": "mlp"})", R"({"settings": {"trace_level": {"value": ["OFF"]}}})",
                              R"({"settings": {"trace_level": {}, "trace_rate": {}}})"}) {
    const auto settings = Call(infer_, &Inference_::TraceSetting, request).settings();
    EXPECT_EQ(settings.size(), 1u);
    EXPECT_THAT(settings.at("trace_level").value(), ElementsAre("OFF"));
  }
  Call(infer_, &Inference_::TraceSetting, R"({"settings": {"trace_level": {"value": ["TIMESTAMPS"]}}})", StatusCode::UNIMPLEMENTED);
  ExpectMessage("--access_log");
  Call(infer_, &Inference_::TraceSetting, R"({"settings": {"trace_rate": {"value": ["1"]}}})", StatusCode::UNIMPLEMENTED);
  Call(infer_, &Inference_::TraceSetting, R"({"settings": {"traces": {}}})", StatusCode::INVALID_ARGUMENT);
  Call(infer_, &Inference_::TraceSetting, R"({"model_name": "none"})", StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace gluond::server
