// Clients that compute operators, by hand: a stream of OperatorService.HostOperators and a thread that answers callbacks.

#ifndef TESTS_SERVER_CUSTOM_HOST_FIXTURE_H_
#define TESTS_SERVER_CUSTOM_HOST_FIXTURE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gluond/v1/custom_operator.pb.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {

// Float tensors.
inline std::vector<float> Floats(const v1::Tensor& tensor) {
  std::vector<float> values(tensor.raw().size() / sizeof(float));
  std::memcpy(values.data(), tensor.raw().data(), values.size() * sizeof(float));
  return values;
}
inline void SetFloats(const std::vector<float>& values, v1::Tensor* tensor) {
  tensor->set_raw(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}
inline v1::Tensor Like(const v1::Tensor& tensor, const std::vector<float>& values) {
  v1::Tensor like;
  *like.mutable_shape() = tensor.shape();
  SetFloats(values, &like);
  return like;
}

// The answer of a well-behaved client. Its operators:
//   square:   y = x^2.
//   counted:  y = x; a forward pass adds 1 to the auxiliary state `count`, a backward pass 10.
inline v1::CallbackResult RightAnswer(const v1::Callback& callback) {
  v1::CallbackResult result;
  result.set_call(callback.call());
  result.set_seconds(1e-4);
  const bool counts = callback.op_type() == "counted";
  const auto infer = [&](const auto& given) {
    *result.mutable_inferred()->add_arguments() = given.arguments(0);
    *result.mutable_inferred()->add_outputs() = given.arguments(0);
    if (!counts) return;
    v1::ArrayType* count = result.mutable_inferred()->add_auxiliary();
    count->set_has_shape(true);
    count->add_shape(1);
    if (given.arguments(0).has_dtype()) count->set_dtype(given.arguments(0).dtype());
  };
  const auto add = [&](const v1::Tensor& count, float more) {
    *result.mutable_computed()->add_auxiliary() = Like(count, {Floats(count)[0] + more});
  };
  if (callback.has_infer_shape()) infer(callback.infer_shape());
  if (callback.has_infer_type()) infer(callback.infer_type());
  if (callback.has_forward()) {
    const v1::Tensor& x = callback.forward().arguments(0);
    std::vector<float> y = Floats(x);
    if (!counts)
      for (float& value : y) value *= value;
    *result.mutable_computed()->add_outputs() = Like(x, y);
    if (counts) add(callback.forward().auxiliary(0), 1);
  }
  if (callback.has_backward()) {
    const v1::Tensor& x = callback.backward().arguments(0).tensor();
    const std::vector<float> values = Floats(x);
    std::vector<float> dx = Floats(callback.backward().out_grads(0).tensor());
    if (!counts)
      for (size_t i = 0; i < dx.size(); ++i) dx[i] *= 2 * values[i];
    *result.mutable_computed()->add_outputs() = Like(x, dx);
    if (counts) add(callback.backward().auxiliary(0), 10);
  }
  return result;
}

// One stream by hand. Cancelled where it has not ended.
class HostStreamClient {
 public:
  // Each has a connection of its own, so that a client that does not read holds up no other.
  explicit HostStreamClient(const std::string& address, const std::string& token = "") {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = v1::OperatorService::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    stream_ = stub_->HostOperators(&context_);
  }
  ~HostStreamClient() {
    context_.TryCancel();
    if (!finished_) (void)stream_->Finish();
  }

  bool Send(const v1::HostRequest& request) {
    std::lock_guard lock(mu_);
    return stream_->Write(request);
  }
  bool Open(const std::string& scope, const std::string& client = "test", const std::string& key = "") {
    v1::HostRequest request;
    request.mutable_open()->set_scope(scope);
    request.mutable_open()->set_key(key);
    request.mutable_open()->set_client_id(client);
    return Send(request);
  }
  bool Offer(const std::string& op_type, bool shared = true) {
    v1::HostRequest request;
    request.mutable_offer()->set_op_type(op_type);
    request.mutable_offer()->set_shared(shared);
    return Send(request);
  }
  bool Release(const std::string& op_type) {
    v1::HostRequest request;
    request.mutable_release()->set_op_type(op_type);
    return Send(request);
  }
  bool Answer(v1::CallbackResult result) {
    v1::HostRequest request;
    *request.mutable_result() = std::move(result);
    return Send(request);
  }
  bool Read(v1::HostResponse* response) { return stream_->Read(response); }
  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // Reads all further messages.
  grpc::Status Finish() {
    v1::HostResponse rest;
    while (stream_->Read(&rest)) {
    }
    finished_ = true;
    return stream_->Finish();
  }

 private:
  std::unique_ptr<v1::OperatorService::Stub> stub_;
  grpc::ClientContext context_;
  std::mutex mu_;  // Writes are one at a time.
  std::unique_ptr<grpc::ClientReaderWriter<v1::HostRequest, v1::HostResponse>> stream_;
  bool finished_ = false;
};

// A client that computes operators: opens, offers, waits until the server knows, answers. An answer without a call is
// held back.
class Provider {
 public:
  using Answerer = std::function<v1::CallbackResult(const v1::Callback&)>;

  Provider(const std::string& address, const std::vector<std::string>& op_types, Answerer answerer = &RightAnswer,
           const std::string& scope = "", bool shared = true, const std::string& key = "", const std::string& token = "")
      : stream_(address, token), answerer_(std::move(answerer)) {
    static std::atomic<int> last = 0;
    EXPECT_TRUE(stream_.Open(scope.empty() ? "a secret of the test's " + std::to_string(++last) : scope, "test", key));
    thread_ = std::thread([this] { Run(); });
    for (const std::string& op_type : op_types) Offer(op_type, shared);
  }
  ~Provider() {
    stream_.Cancel();
    thread_.join();
  }

  // Returns when the server knows. A name is another one's until the server has seen that one's end.
  void Offer(const std::string& op_type, bool shared = true) {
    std::unique_lock lock(mu_);
    const size_t before = offers_;
    while (!ended_ && offers_ == before) {
      const size_t refused = refused_;
      lock.unlock();
      EXPECT_TRUE(stream_.Offer(op_type, shared));
      lock.lock();
      changed_.wait(lock, [&] { return ended_ || offers_ > before || refused_ > refused; });
    }
  }
  // Waits until it has got so many callbacks that are counted by `counts`.
  using Counts = bool (v1::Callback::*)() const;
  void WaitFor(size_t number, Counts counts) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return ended_ || CountLocked(counts) >= number; });
    EXPECT_GE(CountLocked(counts), number) << "the stream has ended";
  }
  size_t Count(Counts counts) {
    std::lock_guard lock(mu_);
    return CountLocked(counts);
  }
  // The numbers of forward and backward passes.
  std::pair<size_t, size_t> Passes() { return {Count(&v1::Callback::has_forward), Count(&v1::Callback::has_backward)}; }
  std::vector<v1::Callback> Seen() {
    std::lock_guard lock(mu_);
    return seen_;
  }
  bool ended() {
    std::lock_guard lock(mu_);
    return ended_;
  }
  // The server's messages about calls and names.
  std::set<uint64_t> cancelled() {
    std::lock_guard lock(mu_);
    return cancelled_;
  }
  std::set<std::string> taken_over() {
    std::lock_guard lock(mu_);
    return taken_over_;
  }
  v1::HostOpened opened() {
    std::lock_guard lock(mu_);
    return opened_;
  }
  void WaitUntil(const std::function<bool()>& is_true) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return ended_ || is_true(); });
  }
  HostStreamClient& stream() { return stream_; }

 private:
  size_t CountLocked(Counts counts) const {
    size_t n = 0;
    for (const v1::Callback& callback : seen_) n += (callback.*counts)();
    return n;
  }

  void Run() {
    v1::HostResponse response;
    while (stream_.Read(&response)) {
      {
        std::lock_guard lock(mu_);
        if (response.has_opened()) opened_ = response.opened();
        offers_ += static_cast<size_t>(response.offered_size());
        cancelled_.insert(response.cancelled().begin(), response.cancelled().end());
        refused_ += static_cast<size_t>(response.refused_size());
        taken_over_.insert(response.taken_over().begin(), response.taken_over().end());
        seen_.insert(seen_.end(), response.callbacks().begin(), response.callbacks().end());
      }
      changed_.notify_all();
      for (const v1::Callback& callback : response.callbacks()) {
        v1::CallbackResult result = answerer_(callback);
        if (result.call() != 0) stream_.Answer(std::move(result));
      }
    }
    std::lock_guard lock(mu_);
    ended_ = true;
    changed_.notify_all();
  }

  HostStreamClient stream_;
  const Answerer answerer_;
  std::mutex mu_;  // Guards what follows, but for thread_.
  std::condition_variable changed_;
  bool ended_ = false;
  v1::HostOpened opened_;
  size_t offers_ = 0;   // Offers that the server knows,
  size_t refused_ = 0;  // and those that it does not take.
  std::set<std::string> taken_over_;
  std::set<uint64_t> cancelled_;
  std::vector<v1::Callback> seen_;
  std::thread thread_;
};

// A server that listens, and models with custom operators.
class CustomTest : public ServiceTest {
 protected:
  void Configure(ServerOptions* options) override { options->address = "127.0.0.1:0"; }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  // A classifier of 4 features into 3 classes, with `op_type` between two layers.
  static std::string Network(const std::string& name, const std::string& op = R"("op": "Custom", "attributes":
      {"op_type": "square"})") {
    return R"({"model": ")" + name + R"(", "seed": "1", "replace": true, "graph": {"nodes": [
        {"name": "fc1", "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": 8}},
        {"name": "mid", "inputs": ["fc1"], )" +
           op + R"(},
        {"name": "fc2", "op": "FullyConnected", "inputs": ["mid"], "attributes": {"num_hidden": 3}}]},
        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})";
  }
  // The same with a state.
  static std::string CountedNetwork(const std::string& name) {
    std::string json = Network(name, R"("op": "Custom", "custom": {"op_type": "counted",
        "arguments": ["data"], "auxiliary": ["count"], "shared": true})");
    return json.insert(json.rfind(']'), R"(, {"name": "mid_count", "initializer": {"name": "zero"}})");
  }
  void Define(const std::string& json, grpc::StatusCode expected = grpc::StatusCode::OK) {
    Call(models_, &v1::ModelService::Stub::DefineModel, json, expected);
  }
  void Initialize(const std::string& name) {
    Call(models_, &v1::ModelService::Stub::InitializeParameters,
         R"({"model": ")" + name + R"(", "initializer": {"name": "xavier"}})");
  }
  void CreateTrainer(const std::string& name) {
    Call(training_, &v1::TrainingService::Stub::CreateTrainer, R"({"model": ")" + name + R"(",
        "loss": {"name": "SoftmaxCrossEntropyLoss"}, "metrics": [{"name": "accuracy"}],
        "optimizer": {"name": "sgd", "attributes": {"learning_rate": 0.1, "momentum": 0.9}}})");
  }
  void DefineTrained(const std::string& name) {
    Define(Network(name));
    Initialize(name);
    CreateTrainer(name);
  }
  v1::TrainStepResponse Step(const std::string& name, int i, grpc::StatusCode expected = grpc::StatusCode::OK) {
    return Call(training_, &v1::TrainingService::Stub::TrainStep, Batch(name, i), expected);
  }
  // A step in a thread of its own. Its status when it has ended.
  struct Started {
    explicit Started(std::function<grpc::Status()> call) : thread([this, call] { status = call(); }) {}
    ~Started() {
      if (thread.joinable()) thread.join();
    }
    const grpc::Status& Wait() {
      if (thread.joinable()) thread.join();
      return status;
    }
    grpc::Status status;
    std::thread thread;
  };
  std::unique_ptr<Started> StartStep(const std::string& name, int i, std::chrono::seconds deadline = std::chrono::seconds(600)) {
    return std::make_unique<Started>([this, name, i, deadline] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + deadline);
      v1::TrainStepResponse response;
      return training_->TrainStep(&context, Batch(name, i), &response);
    });
  }
  std::string Data(const std::string& name) {
    return R"({"model": ")" + name + R"(", "inputs": {"data": {"shape": [2, 4], "float_data": [1, 2, 3, 4, 5, 6, 7, 8]}}})";
  }
};

}  // namespace gluond::server

#endif  // TESTS_SERVER_CUSTOM_HOST_FIXTURE_H_
