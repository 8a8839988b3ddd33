// Connection is the one place where the client calls the server: deadlines, retries, sequence
// numbers. Thread-safe. Calls that change one model go one at a time, in the order of their
// beginning.
//
// A call is sent again while the server is away, or asks for patience, and Options::retry_for lasts. One that changes a
// model carries the same sequence number each time, so that the server applies it once however
// often it comes.

#ifndef GLUOND_CLIENT_CPP_CONNECTION_H_
#define GLUOND_CLIENT_CPP_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/channel.h"
#include "client/cpp/tensor_message.h"
#include "client/cpp/type_messages.h"
#include "gluond/options.h"
#include "gluond/v1/group.grpc.pb.h"
#include "gluond/v1/model.grpc.pb.h"
#include "gluond/v1/operator.grpc.pb.h"
#include "gluond/v1/server.grpc.pb.h"
#include "gluond/v1/serving.grpc.pb.h"
#include "gluond/v1/session.grpc.pb.h"
#include "gluond/v1/training.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/inference/grpc_service.grpc.pb.h"

namespace gluond::client {

// A method's answer, as the struct that programs see.
template <class Message>
auto Described(const absl::StatusOr<Message>& answer) -> absl::StatusOr<decltype(FromProto(*answer))> {
  if (!answer.ok()) return answer.status();
  return FromProto(*answer);
}

// A method whose request has tensors in a map field, number `field`.
template <class Request, class Response>
struct TensorMethod {
  const char* path;  // "/gluond.v1.TrainingService/TrainStep"
  int field;
};

inline constexpr TensorMethod<v1::TrainStepRequest, v1::TrainStepResponse> kTrainStep = {"/gluond.v1.TrainingService/TrainStep",
                                                                                         v1::TrainStepRequest::kInputsFieldNumber};

// Whether the server has lost the calls before this one: it was started anew.
bool IsRewound(const absl::Status& status);

class Connection {
 public:
  Connection(std::string address, Options options, std::shared_ptr<grpc::Channel> channel);

  template <class Stub, class Request, class Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

  // Calls a method that changes no model.
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Call(Method<Stub, Request, Response> method, const Request& request, absl::Duration timeout) {
    return CallBy<Response>(timeout, [&](grpc::ClientContext* context, Response* response) {
      return (stub<Stub>().*method)(context, request, response);
    });
  }
  template <class Request, class Response>
  absl::StatusOr<Response> Call(TensorMethod<Request, Response> method, const Request& request, const Tensors& tensors,
                                absl::Duration timeout) {
    return CallBy<Response>(timeout, [&](grpc::ClientContext* context, Response* response) {
      return Send(method, request, tensors, context, response);
    });
  }

  // Calls a method that deletes. A repetition that finds nothing tells that an earlier attempt has
  // deleted it, and only its answer was lost.
  template <class Stub, class Request, class Response>
  absl::Status Delete(Method<Stub, Request, Response> method, const Request& request, absl::Duration timeout) {
    bool is_repetition = false;
    Response response;
    const absl::Status status = Run(
        absl::Now() + timeout, [&](grpc::ClientContext* context) { return (stub<Stub>().*method)(context, request, &response); },
        [&] {
          is_repetition = true;
          return absl::OkStatus();
        });
    return is_repetition && absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  // Calls a method that changes request.model(), exactly once.
  // ABORTED, with the reason REWOUND: the server was started anew, without the last calls on the model. The
  // message says from which step to go on.
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Apply(Method<Stub, Request, Response> method, Request request, absl::Duration timeout) {
    return ApplyBy<Response>(&request, timeout, [&](grpc::ClientContext* context, Response* response) {
      return (stub<Stub>().*method)(context, request, response);
    });
  }
  template <class Request, class Response>
  absl::StatusOr<Response> Apply(TensorMethod<Request, Response> method, Request request, const Tensors& tensors,
                                 absl::Duration timeout) {
    return ApplyBy<Response>(&request, timeout, [&](grpc::ClientContext* context, Response* response) {
      return Send(method, request, tensors, context, response);
    });
  }

  // Applies a TrainStep to each batch that `next` gives, until it gives none. Several are under way
  // at once. `report` gets the answers in order, each once. The calls that a crash of the server could
  // take back are kept, and sent again after one.
  absl::Status TrainOnBatches(const std::string& model, absl::Duration timeout, absl::FunctionRef<std::optional<Tensors>()> next,
                              absl::FunctionRef<void(const TrainStepResponse&)> report);

  // Calls Train, which has no deadline. It is sent again, or goes on from where it was, while the server is
  // there again within Options::retry_for. `timeout`: of the questions about sequence numbers.
  absl::StatusOr<v1::TrainProgress> Train(v1::TrainRequest request, absl::Duration timeout,
                                          absl::FunctionRef<bool(const TrainProgress&)> progress);

  const Options& options() const { return options_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Bytes of data to put in one chunk, by the server's limit.
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  void set_chunk_bytes(uint64_t bytes) { chunk_bytes_ = bytes; }  // Before the connection is shared.

 private:
  // The calls of this client that change one model.
  struct Line {
    std::mutex mu;
    std::atomic<std::thread::id> in_turn;  // The thread that holds mu; none has the default id.
    uint64_t next = 1;                     // Guarded by mu.
    bool in_doubt = false;                 // Guarded by mu. Whether the server alone knows `next`.
    uint64_t in_part = 0;                  // Guarded by mu. The call of which, as was told, a crash has left the first steps alone.
  };

  // A call's turn in its model's line, for as long as the object lives. FAILED_PRECONDITION, and no turn, within another
  // call's: in the function that Train tells of its progress, for example, which would wait for itself.
  class Turn {
   public:
    Turn(const std::string& model, Line* line);
    ~Turn();
    Turn(const Turn&) = delete;
    const absl::Status& status() const { return status_; }

   private:
    Line* const line_;
    absl::Status status_;
  };

  template <class Stub>
  Stub& stub() {
    return *std::get<std::unique_ptr<Stub>>(stubs_);
  }

  // One attempt of a call.
  template <class Response>
  using Attempt = absl::FunctionRef<grpc::Status(grpc::ClientContext*, Response*)>;

  template <class Response>
  absl::StatusOr<Response> CallBy(absl::Duration timeout, Attempt<Response> attempt) {
    Response response;
    absl::Status status = Run(
        absl::Now() + timeout,
        [&](grpc::ClientContext* context) {
          response.Clear();
          return attempt(context, &response);
        },
        [] { return absl::OkStatus(); });
    if (!status.ok()) return status;
    return response;
  }

  template <class Response, class Request>
  absl::StatusOr<Response> ApplyBy(Request* request, absl::Duration timeout, Attempt<Response> attempt) {
    const absl::Time deadline = absl::Now() + timeout;
    Line& line = LineOf(request->model());
    const Turn turn(request->model(), &line);
    if (!turn.status().ok()) return turn.status();
    absl::Status status = Synchronize(request->model(), deadline, line);
    if (!status.ok()) return status;
    request->mutable_call()->set_client_id(options_.client_id);
    request->mutable_call()->set_sequence(line.next);
    Response response;
    status = Run(
        deadline,
        [&](grpc::ClientContext* context) {
          response.Clear();
          return attempt(context, &response);
        },
        [&] { return CheckNotForgotten(request->model(), deadline, line); });
    status = Advance(std::move(status), request->model(), deadline, line);
    if (!status.ok()) return status;
    return response;
  }

  // Sends a request. `response` and `status` are there when `queue` gives `tag`.
  template <class Request, class Response>
  void Start(TensorMethod<Request, Response> method, const Request& request, const Tensors& tensors, grpc::ClientContext* context,
             Response* response, grpc::Status* status, grpc::CompletionQueue* queue, void* tag) {
    auto call = grpc::TemplatedGenericStub<grpc::ByteBuffer, Response>(channel_).PrepareUnaryCall(
        context, method.path, WithTensors(request, method.field, tensors), queue);
    call->StartCall();
    call->Finish(response, status, tag);
  }

  template <class Request, class Response>
  grpc::Status Send(TensorMethod<Request, Response> method, const Request& request, const Tensors& tensors,
                    grpc::ClientContext* context, Response* response) {
    grpc::Status status;
    grpc::CompletionQueue queue;
    Start(method, request, tensors, context, response, &status, &queue, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    return status;
  }

  absl::Status ToStatus(const grpc::Status& status) const;

  // Runs `attempt`, and while another one may do better and time is left, `resume` and `attempt` again.
  absl::Status Run(absl::Time deadline, absl::FunctionRef<grpc::Status(grpc::ClientContext*)> attempt,
                   absl::FunctionRef<absl::Status()> resume);

  Line& LineOf(const std::string& model);
  absl::Status Synchronize(const std::string& model, absl::Time deadline, Line& line);
  // Whether the server may have applied the calls from line.next on, `sent` of them, and has those
  // before.
  absl::Status CheckNotForgotten(const std::string& model, absl::Time deadline, Line& line, uint64_t sent = 1);
  // Waits for so long, or until a connection that was broken is there again: gRPC connects only while somebody waits for
  // the channel, and else looks every 5 seconds.
  void Pause(absl::Duration time);
  // Goes on to the next number, or, where the call failed, returns the reason.
  absl::Status Advance(absl::Status status, const std::string& model, absl::Time deadline, Line& line);
  // The last of this client's calls on the model that the server has applied, and the trainer's step.
  absl::StatusOr<v1::GetSequenceResponse> AskSequence(const std::string& model, absl::Time deadline);
  absl::Status Rewound(const std::string& model, const v1::GetSequenceResponse& place, uint64_t expected) const;

  const std::string address_;
  const Options options_;
  const bool known_client_;  // The server may know this client from an earlier run.
  const std::shared_ptr<grpc::Channel> channel_;
  const std::tuple<std::unique_ptr<v1::OperatorService::Stub>, std::unique_ptr<v1::ModelService::Stub>,
                   std::unique_ptr<v1::TrainingService::Stub>, std::unique_ptr<v1::ServingService::Stub>,
                   std::unique_ptr<v1::ServerService::Stub>, std::unique_ptr<v1::SessionService::Stub>,
                   std::unique_ptr<v1::GroupService::Stub>, std::unique_ptr<inference::GRPCInferenceService::Stub>>
      stubs_;
  uint64_t chunk_bytes_ = 1 << 20;
  std::mutex mu_;
  std::map<std::string, Line> lines_;  // Guarded by mu_; a Line never moves.
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CONNECTION_H_
