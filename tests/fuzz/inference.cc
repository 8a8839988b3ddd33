// Requests of an inference stream to two models, one of which computes batches: each is answered once, by a client's mistake
// or by outputs of its own shape, whatever the others are; in the end all their memory is given back.

#include <chrono>
#include <memory>
#include <thread>

#include "server/codec/definition_codec.h"
#include "server/hosted/wait_for.h"
#include "server/services/infer.h"
#include "server/serving/publisher.h"
#include "server/wire/wire_message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inference_input.pb.h"

namespace gluond::fuzz {
namespace {

using Code = absl::StatusCode;

constexpr int kMostSteps = 100;
constexpr const char* kNames[] = {"alone", "batched"};

const server::Limits& SmallLimits() {
  static const server::Limits& limits =
      *new server::Limits{.max_message_bytes = 1 << 16, .max_requests = 16, .max_tensor_bytes = 1 << 22};
  return limits;
}

// y = 2 x, for an x of rows of three.
ModelState Doubling() {
  v1::DefineModelRequest request;
  Require(ParseInput(R"(graph { nodes { name: "y" op: "elemwise_add" inputs: ["x", "x"] } outputs: "y" }
                        variables { name: "x" kind: INPUT shape: [-1, 3] dtype: FLOAT32 })",
                     &request),
          "a definition");
  auto definition = server::DefinitionFromProto(request, SmallLimits().max_graph_nodes);
  Require(definition.ok(), definition.status().ToString());
  return ModelState{*std::move(definition), {}, {}};
}

// The same for all inputs.
server::Devices& TheDevices() {
  static server::Devices& devices = *[] {
    auto opened = server::Devices::Open("cpu", 1, SmallLimits());
    Require(opened.ok(), opened.status().ToString());
    return opened->release();
  }();
  return devices;
}

// A server's models.
struct Bench {
  Bench() {
    for (const char* name : kNames) {
      server::VersionFacts facts;
      facts.options.max_batch_size = name == kNames[1] ? 4 : 0;
      facts.options.max_queue_delay = std::chrono::microseconds(50);
      facts.options.priority_levels = 2;
      facts.options.default_priority = 2;
      facts.options.allow_timeout_override = true;
      const absl::Status published = server::WaitFor([&](auto done) {
        publisher->Publish(name, Doubling(), facts, {"stable"}, /*cancellation=*/nullptr,
                           [done](const absl::StatusOr<v1::ServedVersion>& version) { done(version.status()); });
      });
      Require(published.ok(), published.ToString());
    }
  }
  ~Bench() { publisher->Stop(); }

  std::unique_ptr<server::Runner> runner = std::make_unique<server::Runner>(
      SmallLimits(), [](absl::string_view) {}, TheDevices().memory());
  std::unique_ptr<server::Publisher> publisher =
      std::make_unique<server::Publisher>(*runner, TheDevices(), nullptr, [](absl::string_view) {});
  server::SharedRegions regions;  // Without any.
};

// A request that is under way, with all that it refers to.
struct Job {
  inference::ModelInferRequest request;
  server::Attachments attachments, reply_attachments;
  inference::ModelInferResponse response;
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  absl::Status status;
};

void CheckAnswer(const Job& job) {
  RequireCode(job.status, {Code::kInvalidArgument, Code::kNotFound, Code::kResourceExhausted, Code::kUnavailable, Code::kCancelled,
                           Code::kDeadlineExceeded});
  Require(job.status.ok() || !job.status.message().empty(), "an error says what it is");
  if (!job.status.ok()) return;
  Require(job.response.id() == job.request.id(), "an answer has its request's id");
  Require(job.response.outputs_size() == 1, "the model has one output");
  Require(job.response.raw_output_contents_size() == 1, "an output has its values");
  if (job.response.outputs(0).datatype() == "BYTES") return;  // Classes.
  const auto& shape = job.response.outputs(0).shape();
  Require(shape.size() == 2 && shape[0] == job.request.inputs(0).shape(0) && shape[1] == 3, "each request has its own rows");
}

class Stream {
 public:
  explicit Stream(Bench& bench) : bench_(bench) {}
  ~Stream() { Wait(); }

  void Send(const InferenceInput::Step& step) {
    auto job = std::make_unique<Job>();
    inference::ModelInferRequest request = step.request();
    if (step.model() < 2) request.set_model_name(kNames[step.model()]);
    if (!server::ParseMessage({grpc::Slice(request.SerializeAsString())}, &job->request, &job->attachments).ok()) return;
    Job* const its = job.get();
    jobs_.push_back(std::move(job));
    {
      MutexLock lock(mu_);
      ++owed_;
    }
    server::Infer(bench_.publisher->table(), *bench_.runner,
                  {its->request,
                   its->attachments,
                   its->response,
                   its->reply_attachments,
                   {&bench_.regions, {.is_everybody = true}},
                   its->cancellation,
                   nullptr},
                  [this, its](const absl::Status& status) {
                    MutexLock lock(mu_);
                    its->status = status;
                    Require(--owed_ >= 0, "a request is answered once");
                    answered_.NotifyAll();
                  });
    if (step.cancelled()) its->cancellation->Cancel();
  }

  void Wait() {
    {
      MutexLock lock(mu_);
      while (owed_ > 0) answered_.Wait(mu_);
    }
    for (const auto& job : jobs_) CheckAnswer(*job);
    jobs_.clear();
  }

 private:
  Bench& bench_;
  std::vector<std::unique_ptr<Job>> jobs_;
  Mutex mu_;
  CondVar answered_;
  int owed_ ABSL_GUARDED_BY(mu_) = 0;
};

void Run(const InferenceInput& input) {
  {
    Bench bench;
    Stream stream(bench);
    for (int i = 0; i < std::min(input.steps_size(), kMostSteps); ++i) {
      input.steps(i).has_request() ? stream.Send(input.steps(i)) : stream.Wait();
    }
  }
  // A lane's thread may let go of the last tensors.
  for (int i = 0; i < 10'000 && TheDevices().tensor_bytes() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Require(TheDevices().tensor_bytes() == 0, "the requests are answered and the models are gone, tensors are not");
}

std::vector<std::string> InferenceWords() {
  return {"alone",
          "batched",
          "stable",
          "1",
          "x",
          "y",
          "FP32",
          "FP64",
          "INT8",
          "BOOL",
          "BYTES",
          "priority",
          "timeout",
          "classification",
          "shared_memory_region",
          "shared_memory_byte_size",
          "shared_memory_offset",
          "sequence_id",
          "triton_enable_empty_final_response"};
}

}  // namespace
}  // namespace gluond::fuzz

STRUCTURED_FUZZ_TARGET(InferenceInput, Run, InferenceWords())
