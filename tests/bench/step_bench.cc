// A training step, with the batch in memory, by the engine alone and over the wire; and a batch's prediction by the
// engine.
//
//   step_bench NETWORK STEPS [ADDRESS]      NETWORK: see networks.h
//
// Reads commands from standard input, one a line, and answers each with one line:
//   engine   STEPS steps by the engine in this process: milliseconds a step
//   wire     STEPS TrainSteps on the server at ADDRESS, the batch sent each time: milliseconds a step
//   ahead    the same, each sent while the one before is computed
//   define   makes the model on the server: its name
//   steps    STEPS TrainSteps: when each began and ended, in seconds of the system's clock
//   infer N  STEPS predictions of N samples by the engine in this process: milliseconds for one
//   memory   arena bytes of forward and backward, and the sum of every node's outputs before optimization, parameters
//            and their gradients excluded

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/type_messages.h"
#include "engine/core/op.h"
#include "engine/nn/gradients.h"
#include "engine/nn/loss.h"
#include "engine/passes/plan_memory.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/train/trainer.h"
#include "gluond/client.h"
#include "server/codec/definition_codec.h"
#include "tests/bench/engine_calls.h"
#include "tests/bench/networks.h"

namespace gluond::bench {
namespace {

constexpr int64_t kBatch = 64;

// The engine in this process.
class Engine {
 public:
  explicit Engine(const Network& network) : network_(network) {
    v1::DefineModelRequest request;
    *request.mutable_block() = client::ToProto(network.block);
    *request.add_variables() = client::ToProto(network.Input());
    ModelDefinition definition = OrDie(server::DefinitionFromProto(request, 100000));
    model_ = OrDie(Model::Create(std::move(definition), {"bench", 1, lane_.get(), memory_, memory_}));
    const auto status = Await<absl::Status>([&](auto done) { model_->Initialize({{"Xavier", {}}}, done); });
    if (!status.ok()) Die(status);
    trainer_ = OrDie(Trainer::Create(model_, {.optimizer = {"sgd", {{"learning_rate", "0.01"}, {"momentum", "0.9"}}}}));
    batch_ = {{"data", Make(network.Batch(kBatch), Pixels(network.Batch(kBatch)))}, {"label", Make({kBatch}, Labels(kBatch))}};
  }

  void Step() {
    const auto report = Await<absl::StatusOr<StepReport>>([&](auto done) { trainer_->TrainStep(batch_, {}, nullptr, done); });
    if (!report.ok()) Die(report.status());
  }

  void Infer(int64_t samples) {
    const NamedTensors input = {{"data", Make(network_.Batch(samples), std::vector<float>(samples * network_.image.Size()))}};
    const auto outputs = Await<absl::StatusOr<NamedTensors>>([&](auto done) { model_->Predict(input, {}, nullptr, done); });
    if (!outputs.ok()) Die(outputs.status());
  }

  // Prints the memory of the definition as it is, without Simplify.
  void PrintMemory() const {
    const ModelDefinition& definition = model_->definition();
    const NodeEntry loss =
        OrDie(OrDie(Losses().Find("SoftmaxCrossEntropyLoss"))->make({}, {definition.outputs[0], MakeVariable("label"), {}}));
    Graph graph{{loss}};
    for (GraphOutput& gradient : OrDie(GradientOutputs({loss}, {{}}, model_->parameters()))) {
      graph.outputs.push_back(std::move(gradient.entry));
    }
    Signatures known = {{"data", {network_.Batch(kBatch), DType::kFloat32}}, {"label", {{kBatch}, DType::kFloat32}}};
    const IndexedGraph indexed(graph);
    const Inferred inferred = OrDie(InferShapeType(indexed, known));
    std::vector<bool> excluded(indexed.num_entries());
    for (const uint32_t variable : indexed.variables()) excluded[indexed[variable].first_entry] = true;
    for (size_t i = 1; i < indexed.outputs().size(); ++i) excluded[indexed.outputs()[i].entry] = true;
    int64_t all = 0;
    for (uint32_t e = 0; e < indexed.num_entries(); ++e) {
      if (!excluded[e]) all += inferred.shapes[e].Size() * SizeOf(inferred.types[e]);
    }
    const int64_t planned = OrDie(PlanMemory(indexed, inferred)).arena_bytes;
    std::printf("%lld %lld\n", static_cast<long long>(planned), static_cast<long long>(all));
  }

 private:
  Tensor Make(const Shape& shape, const std::vector<float>& values) {
    Tensor tensor = OrDie(Tensor::Empty(*memory_, shape, DType::kFloat32));
    std::copy(values.begin(), values.end(), tensor.data<float>());
    return tensor;
  }

  const Network network_;
  std::shared_ptr<DeviceAllocator> memory_ =
      OrDie(DeviceAllocator::Create({}, std::make_shared<Budget>("bench", int64_t{1} << 40, "no flag")));
  std::shared_ptr<Lane> lane_ = OrDie(Lane::Create({}, {}, *memory_));
  std::shared_ptr<Model> model_;
  std::shared_ptr<Trainer> trainer_;
  NamedTensors batch_;
};

// The same on a server.
class Wire {
 public:
  Wire(const Network& network, const std::string& address)
      : network_(network),
        client_(OrDie(client::Client::Connect(address))),
        name_(absl::StrCat("bench-", getpid())),
        model_(OrDie(client_.DefineModel(name_, network.block, {network.Input()}, {.seed = 1, .replace = true}))) {
    if (const absl::Status status = model_.Initialize(client::Named("Xavier")); !status.ok()) Die(status);
    OrDie(model_.CreateTrainer({.loss = client::Named("SoftmaxCrossEntropyLoss"),
                                .optimizer = client::Named("sgd", {{"learning_rate", 0.01}, {"momentum", 0.9}})}));
    const Shape shape = network.Batch(kBatch);
    batch_ = {{"data", client::Tensor::Of({shape.begin(), shape.end()}, Pixels(shape))},
              {"label", client::Tensor::Of({kBatch}, Labels(kBatch))}};
  }

  const std::string& name() const { return name_; }

  void Step() { OrDie(model_.TrainStep(batch_)); }
  // One sample, which tells the shapes of all parameters.
  void Infer() {
    const Shape shape = network_.Batch(1);
    OrDie(model_.Predict({{"data", client::Tensor::Of({shape.begin(), shape.end()}, std::vector<float>(network_.image.Size()))}}));
  }

  void StepsAhead(int64_t steps) {
    const absl::Status status = model_.TrainOnBatches([&] { return steps-- > 0 ? std::optional(batch_) : std::nullopt; },
                                                      [](const client::TrainStepResponse&) {});
    if (!status.ok()) Die(status);
  }

 private:
  const Network network_;
  client::Client client_;
  const std::string name_;
  client::Model model_;
  client::Tensors batch_;
};

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

int Main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::cerr << "usage: step_bench NETWORK STEPS [ADDRESS]\n";
    return 2;
  }
  if (const absl::Status status = CheckRegistry(); !status.ok()) Die(status);
  const Network network = FindNetwork(argv[1]);
  const int64_t steps = std::atoll(argv[2]);
  std::optional<Engine> engine;
  std::optional<Wire> wire;
  for (std::string command; std::getline(std::cin, command);) {
    const bool on_server = command == "wire" || command == "ahead" || command == "define" || command == "steps";
    if (!engine.has_value() && !on_server) {
      engine.emplace(network);
      if (command == "engine") MillisecondsEach(3, [&] { engine->Step(); });
    }
    if (!wire.has_value() && on_server) {
      if (argc != 4) Die(absl::InvalidArgumentError(command + " wants ADDRESS"));
      wire.emplace(network, argv[3]);
      command == "define" ? wire->Infer() : static_cast<void>(MillisecondsEach(3, [&] { wire->Step(); }));
    }
    if (command == "engine") std::printf("%.4f\n", MillisecondsEach(steps, [&] { engine->Step(); }));
    if (command == "wire") std::printf("%.4f\n", MillisecondsEach(steps, [&] { wire->Step(); }));
    if (command == "ahead") {
      std::printf("%.4f\n", Milliseconds([&] { wire->StepsAhead(steps); }) / static_cast<double>(steps));
    }
    if (command == "define") std::printf("%s\n", wire->name().c_str());
    if (command == "steps") {
      double begin = Now();
      for (int64_t i = 0; i < steps; ++i, begin = Now()) {
        wire->Step();
        std::printf("%.6f:%.6f ", begin, Now());
      }
      std::printf("\n");
    }
    if (command.rfind("infer ", 0) == 0) {
      const int64_t samples = std::atoll(command.substr(6).c_str());
      engine->Infer(samples);
      std::printf("%.4f\n", MillisecondsEach(steps, [&] { engine->Infer(samples); }));
    }
    if (command == "memory") engine->PrintMemory();
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gluond::bench

int main(int argc, char** argv) { return gluond::bench::Main(argc, argv); }
