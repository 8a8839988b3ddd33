// Mistaken and malicious requests, as a table. Each row gets its code and a message that says what is wrong;
// afterwards the server answers health, and the training of another client, which went on all the while, ends with the
// same bits as one that was alone.

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "grpcpp/generic/generic_stub.h"
#include "proto/health/v1/health.grpc.pb.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;

struct BadInput {
  const char* name;
  const char* method;   // "ModelService/DefineModel"
  std::string request;  // JSON where it begins with '{', else the message's bytes.
  StatusCode code;
  const char* says;  // A part of the message.
};

std::string Nodes(const std::string& nodes) {
  return R"({"model": "bad", "graph": {"nodes": [)" + nodes + R"(]}, "variables": [{"name": "x", "shape": [2, 3]}]})";
}

// {"block": "Sequential", "children": [...]} nested so deep.
std::string Nested(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += R"({"block": "Sequential", "children": [)";
  text += R"({"block": "Flatten"})";
  for (int i = 0; i < depth; ++i) text += "]}";
  return R"({"model": "bad", "block": )" + text + "}";
}

std::string Chain(int nodes) {
  std::string text;
  for (int i = 0; i < nodes; ++i) {
    text += (i == 0 ? "" : ",") + std::string(R"({"op": "relu", "name": "n)") + std::to_string(i) + R"(", "inputs": [")" +
            (i == 0 ? "x" : "n" + std::to_string(i - 1)) + R"("]})";
  }
  return Nodes(text);
}

std::string Invoke(const std::string& op, const std::string& inputs, const std::string& attributes = "{}") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "attributes": )" + attributes + "}";
}

std::string Step(const std::string& data, const std::string& label) {
  return R"({"model": "mlp", "inputs": {"data": )" + data + R"(, "label": )" + label + "}}";
}

std::string Repeated(const std::string& what, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += what;
  return text;
}

constexpr char kInvoke[] = "OperatorService/Invoke";
constexpr char kDefine[] = "ModelService/DefineModel";
constexpr char kStep[] = "TrainingService/TrainStep";
constexpr char kPredict[] = "ModelService/Predict";
constexpr char kGoodData[] = R"({"shape": [2, 4], "fill": {}})";
constexpr auto kInvalid = StatusCode::INVALID_ARGUMENT;

const BadInput kBadInputs[] = {
    // Messages.
    {"TruncatedMessage", kInvoke, "\x0a\x7fno", kInvalid, "op is longer than what holds it"},
    {"RandomBytes", kInvoke, "\xff\xff\xff\xff\xff\xff", kInvalid, "not a gluond.v1.InvokeRequest"},
    {"NotUtf8", kInvoke, "\x0a\x02\xc3\x28", kInvalid, "op is not UTF-8"},
    {"EmptyMessage", kInvoke, "", StatusCode::NOT_FOUND, "operator"},
    {"OverTheLimit", kInvoke, std::string(5 << 20, '\0'), StatusCode::RESOURCE_EXHAUSTED, "--max_message_bytes"},
    {"ManyEmptyMessages", kInvoke, Repeated(std::string("\x12\0", 2), 2'000'001), StatusCode::RESOURCE_EXHAUSTED,
     "64 times as many"},
    // Tensors.
    {"ShortTensor", kInvoke, Invoke("relu", R"({"shape": [4], "raw": "AAAA"})"), kInvalid, "takes 16 bytes, but raw has 3"},
    {"LongTensor", kInvoke, Invoke("relu", R"({"shape": [1], "float_data": [1, 2]})"), kInvalid, "float_data has 2"},
    {"NoValues", kInvoke, Invoke("relu", R"({"shape": [4]})"), kInvalid, "got none"},
    {"TwoForms", kInvoke, Invoke("relu", R"({"shape": [1], "raw": "AAAAAA==", "fill": {}})"), kInvalid, "raw and fill"},
    {"NegativeDimension", kInvoke, Invoke("relu", R"({"shape": [-1], "fill": {}})"), kInvalid, "negative dimension"},
    {"SmallestDimension", kInvoke, Invoke("relu", R"({"shape": ["-9223372036854775808"], "fill": {}})"), kInvalid, "inputs[0]"},
    {"HugeDimension", kInvoke, Invoke("relu", R"({"shape": ["9223372036854775807"], "fill": {}})"), kInvalid, "2^48"},
    {"OverflowingShape", kInvoke, Invoke("relu", R"({"shape": ["4294967296", "4294967296"], "raw": ""})"), kInvalid, "2^48"},
    {"HighRank", kInvoke, Invoke("relu", R"({"shape": [1,1,1,1,1,1,1,1,1,1], "float_data": [1]})"), kInvalid, "rank 10"},
    {"HugeFill", kInvoke, Invoke("relu", R"({"shape": ["1000000000000"], "fill": {}})"), StatusCode::RESOURCE_EXHAUSTED,
     "--max_tensor_bytes"},
    {"HugeTypedReply", kInvoke, R"({"op": "_zeros", "encoding": "TYPED", "attributes": {"shape": [5000000], "dtype": "uint8"}})",
     StatusCode::RESOURCE_EXHAUSTED, "STATISTICS"},
    {"UnknownDtype", kInvoke, Invoke("relu", R"({"shape": [1], "dtype": 77, "fill": {}})"), kInvalid, "dtype 77"},
    {"Narrowing", kInvoke, Invoke("relu", R"({"shape": [1], "dtype": "UINT8", "int_data": [256]})"), kInvalid, "uint8 cannot hold"},
    {"BadBool", kInvoke, Invoke("_copy", R"({"shape": [1], "dtype": "BOOL", "raw": "Bw=="})"), kInvalid, "want 0 or 1"},
    // Operators and attributes.
    {"UnknownOperator", kInvoke, Invoke("rellu", R"({"fill": {}})"), StatusCode::NOT_FOUND, "relu"},
    {"UnknownAttribute", kInvoke, Invoke("relu", R"({"fill": {}})", R"({"slope": 1})"), kInvalid, "slope"},
    {"AttributeSplicedIntoAnother", kDefine,
     R"({"model": "bad", "block": {"block": "Dense", "attributes": {"units": 2, "weight_initializer": {"name": "Xavier", "attributes": {"rnd_type": "gaussian, magnitude=5"}}}}})",
     kInvalid, "without any of"},
    {"MissingAttribute", kInvoke, Invoke("Activation", R"({"fill": {}})"), kInvalid, "act_type"},
    {"AttributeOutOfRange", kInvoke, Invoke("Dropout", R"({"shape": [1], "fill": {}})", R"({"p": 1.5})"), kInvalid, "p"},
    {"AttributeIsNan", kInvoke, Invoke("Dropout", R"({"shape": [1], "fill": {}})", R"({"p": "nan"})"), kInvalid, "p"},
    {"AttributeOfWrongKind", kInvoke, Invoke("transpose", R"({"shape": [1, 2], "fill": {}})", R"({"axes": {"a": 1}})"), kInvalid,
     "axes"},
    {"WrongInputCount", kInvoke, Invoke("dot", R"({"fill": {}})"), kInvalid, "2"},
    {"KernelOfZero", kInvoke, Invoke("Pooling", R"({"shape": [1, 1, 4, 4], "fill": {}})", R"({"kernel": [0, 2]})"), kInvalid,
     "kernel"},
    {"NoFilters", kInvoke,
     Invoke("Convolution",
            R"({"shape": [1, 1, 4, 4], "fill": {}}, {"shape": [1, 1, 2, 2], "fill": {}}, {"shape": [1], "fill": {}})",
            R"({"kernel": [2, 2], "num_filter": 0})"),
     kInvalid, "num_filter"},
    {"ExpandsToATerabyte", kInvoke, Invoke("broadcast_to", R"({"shape": [1, 1], "fill": {}})", R"({"shape": [1000000, 1000000]})"),
     StatusCode::RESOURCE_EXHAUSTED, "--max_tensor_bytes"},
    {"ShapesDoNotFit", kInvoke, Invoke("dot", R"({"shape": [2, 3], "fill": {}}, {"shape": [4, 2], "fill": {}})"), kInvalid, "dot"},
    {"AxisOutOfRange", kInvoke, Invoke("softmax", R"({"shape": [2, 3], "fill": {}})", R"({"axis": 5})"), kInvalid, "axis"},
    // Graphs.
    {"Cycle", kDefine, Nodes(R"({"name": "a", "op": "relu", "inputs": ["b"]}, {"name": "b", "op": "relu", "inputs": ["a"]})"),
     kInvalid, "cycle"},
    {"SelfLoop", kDefine, Nodes(R"({"name": "a", "op": "relu", "inputs": ["a"]})"), kInvalid, "cycle"},
    {"TwoNodesOfOneName", kDefine,
     Nodes(R"({"name": "a", "op": "relu", "inputs": ["x"]}, {"name": "a", "op": "relu", "inputs": ["x"]})"), kInvalid, "two nodes"},
    {"NoSuchOutput", kDefine, Nodes(R"({"name": "a", "op": "relu", "inputs": ["x:3"]})"), kInvalid, "index 3"},
    {"NoNodes", kDefine, R"({"model": "bad", "graph": {}})", kInvalid, "no nodes"},
    {"Nothing", kDefine, R"({"model": "bad"})", kInvalid, "neither"},
    {"UnknownOperatorInGraph", kDefine, Nodes(R"({"op": "Convlution", "inputs": ["x"]})"), StatusCode::NOT_FOUND, "Convolution"},
    {"UnknownBlock", kDefine, R"({"model": "bad", "block": {"block": "Dens"}})", StatusCode::NOT_FOUND, "Dense"},
    {"DeepTree", kDefine, Nested(40), kInvalid, "deeper than"},
    {"DeepestTree", kDefine, Nested(90), kInvalid, "deeper than"},
    {"LongChain", kDefine, Chain(3000), StatusCode::RESOURCE_EXHAUSTED, "--max_graph_nodes"},
    {"UndeclaredVariable", kDefine,
     R"({"model": "bad", "block": {"block": "Flatten"}, "variables": [{"name": "nobody", "shape": [1]}]})", kInvalid,
     "nothing reads it"},
    {"ContradictingShapes", kDefine,
     R"({"model": "bad", "block": {"block": "Dense", "attributes": {"units": 2, "in_units": 5}}, "variables": [{"name": "data", "shape": [-1, 4]}]})",
     kInvalid, "Shape inconsistent"},
    {"NegativeTtl", kDefine, R"({"model": "bad", "block": {"block": "Flatten"}, "ttl": "-1s"})", kInvalid, "ttl"},
    // Names.
    {"NameIsAPath", kDefine, R"({"model": "../../etc/passwd", "block": {"block": "Flatten"}})", kInvalid, "model"},
    {"NameIsAbsolute", "ModelService/SaveCheckpoint", R"({"model": "mlp", "checkpoint": "/tmp/x"})", kInvalid, "checkpoint"},
    {"NameIsHidden", "ModelService/LoadCheckpoint", R"({"checkpoint": "..", "model": "x"})", kInvalid, "checkpoint"},
    {"NameIsEmpty", kDefine, R"({"model": "", "block": {"block": "Flatten"}})", kInvalid, "model"},
    {"NameIsLong", kDefine, R"({"model": ")" + std::string(10'000, 'a') + R"(", "block": {"block": "Flatten"}})", kInvalid,
     "model"},
    {"NameHasZero", kDefine, R"({"model": "a\u0000b", "block": {"block": "Flatten"}})", kInvalid, "model"},
    {"NameLooksAlike", kDefine, R"({"model": "m\u0456p", "block": {"block": "Flatten"}})", kInvalid, "model"},
    {"DatasetNameIsAPath", "TrainingService/UploadDataset", R"({"dataset": "a/b", "tensors": {"x": {"shape": [1], "fill": {}}}})",
     kInvalid, "dataset"},
    {"NoSuchModel", kPredict, R"({"model": "mlq"})", StatusCode::NOT_FOUND, "mlp"},
    {"NoSuchCheckpoint", "ModelService/LoadCheckpoint", R"({"checkpoint": "nothing"})", StatusCode::NOT_FOUND, "nothing"},
    // Predicting and training.
    {"MissingInput", kPredict, R"({"model": "mlp"})", kInvalid, "data"},
    {"UnknownInput", kPredict, R"({"model": "mlp", "inputs": {"dat": {"shape": [2, 4], "fill": {}}}})", kInvalid, "dat"},
    {"WrongInputShape", kPredict, R"({"model": "mlp", "inputs": {"data": {"shape": [2, 5], "fill": {}}}})", kInvalid, "data"},
    {"NoSuchModelOutput", kPredict, R"({"model": "mlp", "outputs": ["nope"], "inputs": {"data": {"shape": [2, 4], "fill": {}}}})",
     StatusCode::NOT_FOUND, "output"},
    {"NoLabel", kStep, R"({"model": "mlp", "inputs": {"data": {"shape": [2, 4], "fill": {}}}})", kInvalid, "label"},
    {"LabelTooShort", kStep, Step(kGoodData, R"({"shape": [1], "fill": {}})"), kInvalid, ""},
    {"BothInputsAndRows", kStep, R"({"model": "mlp", "inputs": {"data": {"fill": {}}}, "rows": {"dataset": "d"}})", kInvalid,
     "both"},
    {"NeitherInputsNorRows", kStep, R"({"model": "mlp"})", kInvalid, "neither"},
    {"NoSuchDataset", kStep, R"({"model": "mlp", "batch_size": 2, "rows": {"dataset": "d"}})", StatusCode::NOT_FOUND, "dataset"},
    {"RowOutOfRange", kStep, R"({"model": "mlp", "rows": {"dataset": "toy", "indices": [0, 7]}})", kInvalid,
     "rows.indices[1] is 7"},
    {"NegativeRow", kStep, R"({"model": "mlp", "rows": {"dataset": "toy", "indices": [-1]}})", kInvalid, "rows.indices[0] is -1"},
    {"RangeOutOfRange", kStep, R"({"model": "mlp", "batch_size": 2, "rows": {"dataset": "toy", "begin": 6}})", kInvalid,
     "no range"},
    {"RangeThatEndsAtZero", kStep, R"({"model": "mlp", "batch_size": 2, "rows": {"dataset": "toy", "end": 0}})", kInvalid,
     "no range"},
    {"IndicesAndAnEndOfZero", kStep, R"({"model": "mlp", "rows": {"dataset": "toy", "indices": [0], "end": 0}})", kInvalid,
     "got both"},
    {"BatchSizeOfZeroRows", kStep, R"({"model": "mlp", "batch_size": 0, "rows": {"dataset": "toy"}})", kInvalid,
     "batch_size is 0; want 1 or more"},
    {"NoSteps", kStep, R"({"model": "mlp", "batch_size": 2, "steps": 0, "rows": {"dataset": "toy"}})", kInvalid,
     "steps is 0; want 1 or more"},
    {"EvaluatedByZero", "TrainingService/Evaluate", R"({"model": "mlp", "batch_size": 0, "rows": {"dataset": "toy"}})", kInvalid,
     "batch_size is 0; want 1 or more"},
    {"EvaluatesNothing", "TrainingService/Evaluate", R"({"model": "mlp"})", kInvalid, "neither"},
    {"NormOfZero", "TrainingService/CreateTrainer",
     R"({"model": "mlp", "replace": true, "loss": {"name": "L2Loss"}, "clip_global_norm": 0})", kInvalid, "clip_global_norm is 0"},
    {"ChunkOfZeroBytes", "ModelService/DownloadParameter", R"({"model": "mlp", "parameter": "0.weight", "max_bytes": 0})", kInvalid,
     "max_bytes is 0"},
    {"OldVersion", "ModelService/DownloadParameter", R"({"model": "mlp", "parameter": "0.weight", "version": 0})",
     StatusCode::FAILED_PRECONDITION, "no longer of 0"},
    {"NegativeBatchSize", kStep, R"({"model": "mlp", "batch_size": -2, "rows": {"dataset": "toy"}})", kInvalid, "batch_size"},
    {"BatchSizeOfZero", "TrainingService/Step", R"({"model": "mlp"})", kInvalid, "batch_size is 0"},
    {"NoTrainer", "TrainingService/Step", R"({"model": "untrained", "batch_size": 1})", StatusCode::FAILED_PRECONDITION,
     "CreateTrainer"},
    {"SecondTrainer", "TrainingService/CreateTrainer", R"({"model": "mlp", "loss": {"name": "L2Loss"}})",
     StatusCode::ALREADY_EXISTS, "replace"},
    {"UnknownLoss", "TrainingService/CreateTrainer", R"({"model": "mlp", "replace": true, "loss": {"name": "L3Loss"}})", kInvalid,
     "L2Loss"},
    {"UnknownOptimizer", "TrainingService/CreateTrainer",
     R"({"model": "mlp", "replace": true, "loss": {"name": "L2Loss"}, "optimizer": {"name": "sdg"}})", kInvalid, "sgd"},
    {"NegativeLearningRate", "TrainingService/CreateTrainer",
     R"({"model": "mlp", "replace": true, "loss": {"name": "L2Loss"}, "optimizer": {"name": "sgd", "attributes": {"learning_rate": -1}}})",
     kInvalid, "learning_rate"},
    {"BackwardWithoutForward", "TrainingService/Backward", R"({"model": "mlp"})", StatusCode::FAILED_PRECONDITION, "Forward"},
    {"UnknownInitializer", "ModelService/InitializeParameters", R"({"model": "mlp", "initializer": {"name": "Xaver"}})", kInvalid,
     "Xavier"},
    // Sequences.
    {"SequenceWithoutClient", kStep, R"({"model": "mlp", "call": {"sequence": "1"}})", kInvalid, "client_id"},
    {"SequenceWithAGap", kStep, R"({"model": "mlp", "call": {"client_id": "eve", "sequence": "5"}})",
     StatusCode::FAILED_PRECONDITION, "send 1 next"},
    {"UploadWithoutClient", "ModelService/UploadParameter", R"({"model": "mlp", "parameter": "0.bias", "shape": [8]})", kInvalid,
     "client_id"},
    {"UploadWithASequence", "ModelService/UploadParameter", R"({"model": "mlp", "parameter": "0.bias", "shape": [8],
        "call": {"client_id": "eve", "sequence": "1"}})",
     kInvalid, "takes no sequence"},
    {"UploadOfAnotherShape", "ModelService/UploadParameter",
     R"({"model": "mlp", "parameter": "0.bias", "shape": [9], "call": {"client_id": "eve"}})", kInvalid, "shape [8]"},
    {"ChunkBeyondTheEnd", "ModelService/UploadParameter",
     R"({"model": "mlp", "parameter": "0.bias", "shape": [8], "call": {"client_id": "eve"}, "chunk": {"offset": "18446744073709551615", "data": "AAAA"}})",
     kInvalid, "beyond the end"},
};

class BadInputTest : public ServiceTest {
 protected:
  void SetUp() override {
    Limits limits;
    limits.max_message_bytes = 4 << 20;
    limits.max_graph_nodes = 2000;
    limits.max_tensor_bytes = 64 << 20;
    limits.max_model_bytes = 32 << 20;
    StartServer(limits);
    DefineMlp("mlp");
    Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": "untrained", "block": {"block": "Flatten"}})");
    Call(training_, &v1::TrainingService::Stub::UploadDataset, R"({"dataset": "toy", "commit": true, "tensors": {
        "data": {"shape": [6, 4], "fill": {}}, "label": {"shape": [6], "fill": {}}}})");
  }

  // Sends a message as it is, so that it may be broken.
  grpc::Status Send(const std::string& method, const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::Slice slice(bytes);
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, "/gluond.v1." + method, grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    call->Finish(&reply, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  // The bytes of a row's request.
  static std::string Encode(const BadInput& bad) {
    if (bad.request.empty() || bad.request[0] != '{') return bad.request;
    const std::string method(bad.method);
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("gluond.v1." + method.substr(0, method.find('/')));
    const auto* type = service->FindMethodByName(method.substr(method.find('/') + 1))->input_type();
    std::unique_ptr<google::protobuf::Message> message(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
    const auto status = google::protobuf::util::JsonStringToMessage(bad.request, message.get());
    EXPECT_TRUE(status.ok()) << bad.name << ": " << status.ToString();
    return message->SerializeAsString();
  }

  void ExpectHealthy() {
    const auto health = grpc::health::v1::Health::NewStub(channel_);
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse response;
    EXPECT_TRUE(health->Check(&context, {}, &response).ok());
    EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  }
};

TEST_F(BadInputTest, EachGetsItsCodeAndAnotherClientsTrainingIsNotTouched) {
  constexpr int kSteps = 200;
  DefineMlp("alone");
  for (int i = 0; i < kSteps; ++i) Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("alone", i));
  DefineMlp("victim");

  std::atomic<int> steps = 0;
  std::thread client([&] {
    for (int i = 0; i < kSteps; ++i) {
      grpc::ClientContext context;
      v1::TrainStepResponse response;
      const grpc::Status status = training_->TrainStep(&context, Batch("victim", i), &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      ++steps;
    }
  });
  int rounds = 0;
  do {
    for (const BadInput& bad : kBadInputs) {
      SCOPED_TRACE(bad.name);
      const grpc::Status status = Send(bad.method, Encode(bad));
      EXPECT_EQ(status.error_code(), bad.code) << status.error_message();
      EXPECT_NE(status.error_message().find(bad.says), std::string::npos) << status.error_message();
      EXPECT_EQ(status.error_message().find(".cc:"), std::string::npos) << "a path: " << status.error_message();
      ExpectHealthy();
    }
    ++rounds;
  } while (steps < kSteps && rounds < 20);
  client.join();
  EXPECT_EQ(Parameters("victim"), Parameters("alone"));
}

TEST_F(BadInputTest, NanLabelsAreReportedAndHarmNobody) {
  const auto reply = Call(training_, &v1::TrainingService::Stub::TrainStep,
                          Step(R"({"shape": [1, 4], "float_data": ["NaN", 1, 1, 1]})", R"({"shape": [1], "int_data": [0]})"));
  EXPECT_TRUE(reply.report().nonfinite());
  EXPECT_EQ(reply.report().skipped(), 1);
  Call(training_, &v1::TrainingService::Stub::TrainStep, Batch("mlp", 0));
  ExpectHealthy();
}

TEST_F(BadInputTest, AStepOnALabelThatIsNoClassIsRefusedAndNamesIt) {
  for (const char* label : {"1e9", "-7", "\"NaN\"", "3"}) {
    v1::TrainStepRequest request = Json<v1::TrainStepRequest>(
        Step(R"({"shape": [1, 4], "fill": {}})", R"({"shape": [1], "float_data": [)" + std::string(label) + "]}"));
    grpc::ClientContext context;
    v1::TrainStepResponse response;
    const grpc::Status status = training_->TrainStep(&context, request, &response);
    EXPECT_EQ(status.error_code(), kInvalid) << label;
    EXPECT_TRUE(absl::StrContains(status.error_message(), "(pick): label 0 is ")) << status.error_message();
    EXPECT_TRUE(absl::StrContains(status.error_message(), ", expected a class from 0 to 2")) << status.error_message();
  }
  ExpectHealthy();
}

TEST_F(BadInputTest, ADeadlineEndsAnyCall) {
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(50 * i));
    v1::TrainStepResponse response;
    const grpc::Status status = training_->TrainStep(&context, Batch("mlp", i), &response);
    EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  }
  ExpectHealthy();
}

TEST_F(BadInputTest, CancelledCallsEndEverywhere) {
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(40 * i));
      context.TryCancel();
    });
    v1::TrainStepResponse response;
    const grpc::Status status = training_->TrainStep(&context, Batch("mlp", i), &response);
    EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::CANCELLED) << status.error_message();
    canceller.join();
  }
  ExpectHealthy();
}

TEST_F(BadInputTest, TwoClientsOnOneModelTakeTurns) {
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([this] {
      for (int i = 0; i < 25; ++i) {
        grpc::ClientContext context;
        v1::TrainStepResponse response;
        EXPECT_TRUE(training_->TrainStep(&context, Batch("mlp", i), &response).ok());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(Call(training_, &v1::TrainingService::Stub::GetTrainer, R"({"model": "mlp"})").trainer().step(), 100);
}

TEST_F(BadInputTest, DeletingAModelInUseEndsItsCallsCleanly) {
  std::atomic<bool> stop = false;
  std::thread client([&] {
    for (int i = 0; !stop; ++i) {
      grpc::ClientContext context;
      v1::TrainStepResponse response;
      const grpc::Status status = training_->TrainStep(&context, Batch("mlp", i), &response);
      EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::NOT_FOUND ||
                  status.error_code() == StatusCode::FAILED_PRECONDITION)
          << status.error_message();
    }
  });
  for (int i = 0; i < 10; ++i) {
    Call(models_, &v1::ModelService::Stub::DeleteModel, R"({"model": "mlp"})");
    DefineMlp("mlp");
  }
  stop = true;
  client.join();
  ExpectHealthy();
}

TEST_F(BadInputTest, TooManyRequestsAreRefusedByName) {
  Limits limits;
  limits.max_requests = 1;
  StartServer(limits);
  DefineMlp("mlp");
  std::atomic<int> refused = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        grpc::ClientContext context;
        v1::TrainStepResponse response;
        const grpc::Status status = training_->TrainStep(&context, Batch("mlp", i), &response);
        if (status.ok()) continue;
        EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
        EXPECT_NE(status.error_message().find("--max_requests"), std::string::npos);
        ++refused;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(refused, 0);
  ExpectHealthy();
}

TEST_F(BadInputTest, TooManyModelsAndDatasetsAreRefusedByName) {
  Limits limits;
  limits.max_models = 1;
  limits.max_datasets = 2;  // The store has that of SetUp, which counts.
  StartServer(limits);
  const auto define = [&](const std::string& name, StatusCode code) {
    Call(models_, &v1::ModelService::Stub::DefineModel, R"({"model": ")" + name + R"(", "block": {"block": "Flatten"}})", code);
  };
  define("a", StatusCode::OK);
  define("b", StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("--max_models");
  const auto upload = [&](const std::string& name, StatusCode code) {
    Call(training_, &v1::TrainingService::Stub::UploadDataset,
         R"({"dataset": ")" + name + R"(", "tensors": {"x": {"shape": [1], "fill": {}}}})", code);
  };
  upload("a", StatusCode::OK);
  upload("b", StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("--max_datasets");
}

}  // namespace
}  // namespace gluond::server
