// Every method with one message from its client runs here, from the bytes that gRPC received to the bytes that it
// sends. This alone checks the size, admits, parses, puts numbered calls in order, leaves the gRPC thread, carries
// cancellation and deadline, maps Status, and logs. A method is one row in its service's table (raw_service.h) and
// reads:
//
//   void ModelService::GetModel(Call<v1::GetModelRequest, v1::GetModelResponse> call) {
//     ASSIGN_OR_FINISH(call, std::shared_ptr<Model> model, models_.Find(call.request().model()));
//     Describe(*model, call.response().mutable_model());
//     call.Finish();
//   }
//
// A Call is a handle: copies mean the same call, which ends at the first Finish; a later Finish is ignored. A call that
// nobody finishes ends with INTERNAL when its last handle goes. Handles may be used from any thread, one at a time.

#ifndef SERVER_RPC_UNARY_H_
#define SERVER_RPC_UNARY_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/cancellation.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"
#include "server/codec/duration.h"
#include "server/codec/tensors_codec.h"
#include "server/identity/owners.h"
#include "server/identity/tenants.h"
#include "server/net/peers.h"
#include "server/rpc/access_log.h"
#include "server/rpc/audit_log.h"
#include "server/rpc/calls_under_way.h"
#include "server/rpc/dispatch.h"
#include "server/rpc/latency.h"
#include "server/rpc/log.h"
#include "server/rpc/sequence.h"
#include "server/rpc/shares.h"
#include "server/rpc/stream.h"
#include "server/rpc/tenant_names.h"
#include "server/rpc/unsent.h"
#include "server/start/limits.h"
#include "server/wire/attachments.h"
#include "server/wire/chunk.h"
#include "server/wire/parse_message.h"

namespace gluond::server {

// The things that all calls share. Outlives the gRPC server.
struct Runner {
  // `memory`: the process's budget.
  Runner(const Limits& limits, LogSink log, std::shared_ptr<Budget> memory)
      : limits(limits), log(std::move(log)), memory(std::move(memory)),
        requests("requests in flight", limits.max_requests, "--max_requests", &Quotas::requests),
        request_bytes("bytes of requests in flight", limits.max_request_bytes, "--max_request_bytes"),
        sequences({limits.max_clients, limits.max_silent_clients, limits.max_answer_bytes},
                  [this](auto work) { dispatch.Run(Weight::kHeavy, std::move(work)); },
                  [this](absl::string_view tenant) { return MostClients(tenant); }) {}

  // The most clients of a tenant whose numbers are remembered; nothing: there is no such tenant.
  std::optional<int64_t> MostClients(absl::string_view tenant) const {
    const TenantPtr found = tenants.Find(tenant);
    if (found == nullptr) return std::nullopt;
    return found->Most(&Quotas::clients, limits.max_clients);
  }

  const Limits limits;
  FailureLog log;
  CallsUnderWay calls;
  const std::shared_ptr<Budget> memory;
  Peers peers;
  Shares requests;
  Shares request_bytes;
  Unsent unsent;
  Sequences sequences;
  // The phases of models' calls: the wait for the model and its lane, the computation, and the part of it that clients
  // took for their operators.
  Latency queued, computed, called_back;
  AuditLog audit;
  AccessLog access{log.levels()};
  Tenants tenants;  // Loaded before the first call.
  Owners owners;    // Likewise.
  bool tells_durable = false;  // Replies tell the last durable sequence number. Set before the first call.
  // UNAVAILABLE: the model is being loaded, and with it the numbers of its clients. Set before the first call.
  std::function<absl::Status(const std::string& model)> check_loaded = [](const std::string&) { return absl::OkStatus(); };
  Dispatch dispatch;  // Last: its work uses the others.
};

struct Method {
  std::string path;  // "/gluond.v1.ModelService/Predict"
  std::string name;  // "Predict", which leads every error message.
  Weight weight = Weight::kLight;
  Audit audit = Audit::kNone;
  // Its requests have kMostShort bytes at most, inflated: those of a method that is open to everybody, or that is
  // answered beside the limits.
  bool is_short = false;
};

// One call in progress, whatever its messages are.
class Rpc {
 public:
  // The stream of a call that has one message and one answer.
  class OneCall;
  // Runs a call when its message has come. A `request` of null: the call ended before.
  using Run = std::function<void(OneCall* stream, Slices* request)>;

  // A call has come. `run` outlives all calls.
  static Stream* Await(Runner& runner, Stream::Opening opening, const Run& run);

  Rpc(Runner& runner, const Method& method, OneCall* stream);
  virtual ~Rpc();

  Runner& runner() { return runner_; }
  const PeerPtr& peer() const { return peer_; }
  // As Stream's.
  std::string caller_name() const;
  bool has_caller() const;
  const IdentityPtr& caller() const;
  const Reach& reach() const { return reach_; }
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  int64_t request_bytes() const { return request_bytes_; }
  const Attachments& attachments() const { return attachments_; }
  Attachments& reply_attachments() { return reply_attachments_; }

  // The most bytes that a request of the method may have once it is inflated.
  int64_t most_bytes() const { return method_.is_short ? kMostShort : runner_.limits.max_message_bytes; }
  // The most bytes that this request may have once it is inflated.
  int64_t bytes_to_parse() const;

  // Decides about the request and parses it into `message`.
  absl::Status Admit(const Slices* request);
  // Whether the peer has so many calls under way that this one is to take its turn among those of all peers.
  bool TakesTurn() const;
  absl::Status Parse(const Slices& slices, google::protobuf::Message* message);
  // The client's name for itself, for the log. One that is too long for a name is left out.
  void SetClient(const std::string& client_id);
  // The model, or whatever else it is, that the call is about: for the logs.
  void SetTarget(std::string name) { target_ = std::move(name); }
  CallPhases& phases() { return phases_; }
  // The call changes nothing for others to find: the audit log has no line of it.
  void SetUnaudited() { audit_ = Audit::kNone; }
  // Notes the things that the call touches, whose owners are to be asked before it runs.
  void Touch(const google::protobuf::Message& request);
  // The threads on which MayTouch may run: to ask whether a checkpoint is there takes the disk.
  Weight WeightOfTouching() const;
  // Whether the caller may do that. PERMISSION_DENIED as of Owners.
  absl::Status MayTouch();
  // Makes a client's name for itself its own: two callers that chose the same name are two clients.
  void Scope(std::string* client_id) const;
  void SetTurn(std::unique_ptr<Sequences::Turn> turn) { turn_ = std::move(turn); }
  bool numbered() const { return turn_ != nullptr; }
  // See Sequences::Effect. Nothing for a call without a number.
  void SetEffect(Sequences::Effect effect) {
    if (turn_ != nullptr) turn_->set_effect(effect);
  }

  // Sends one more answer before the last, unless the one before it is not sent yet: then this does nothing, and
  // returns false. So a client that reads slowly gets fewer.
  bool TrySend(google::protobuf::Message* response);
  // See Turn::Between. A call without a number goes on at once.
  void Between(std::function<void()> go_on) { turn_ == nullptr ? go_on() : turn_->Between(std::move(go_on)); }

  // The first of these ends the call. `response` is read when the status is OK.
  void Finish(const absl::Status& status, google::protobuf::Message* response);
  // Ends a call that was applied and whose answer cannot be sent: `status` says why. `response` is kept for repetitions.
  void FinishApplied(const absl::Status& status, google::protobuf::Message* response);
  void FinishWithStoredAnswer(const std::string& answer, google::protobuf::Message* response);

 private:
  absl::Status Encode(const google::protobuf::Message& response, Slices* reply) const;
  // The request as it was before it was compressed.
  absl::StatusOr<Slices> Inflated(const Slices& slices);
  absl::Status CheckSize(int64_t bytes) const;
  void Log(const absl::Status& status);
  void TellAudit(const absl::Status& status);
  // Sends the last word, where the reply may first be compressed, which takes long.
  void Send(const absl::Status& status, Slices reply);

  Runner& runner_;
  const Method& method_;
  OneCall* const stream_;  // Valid until the call is finished.
  const PeerPtr peer_;
  const Reach reach_;
  const std::shared_ptr<Cancellation> cancellation_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t request_bytes_ = 0;
  std::string client_, target_;
  std::vector<Touched> touched_;
  Owners::ClaimPtr claim_;  // The things that the call makes.
  CallPhases phases_;
  Audit audit_ = method_.audit;
  Shares::Permit permit_;
  Shares::Permit bytes_permit_;
  Reservation memory_;  // The call's, with the request's and the reply's.
  const int64_t call_bytes_ = memory_.bytes();  // Without them.
  Attachments attachments_;
  Attachments reply_attachments_;
  std::unique_ptr<Sequences::Turn> turn_;
  bool is_compressed_ = false;  // The request; then the reply may be, too.
  std::atomic<bool> finished_ = false;
};

template <class Request, class Response>
class Call {
 public:
  struct State final : Rpc {
    using Rpc::Rpc;
    google::protobuf::Arena arena;
    Request* request = Request::default_instance().New(&arena);
    Response* response = Response::default_instance().New(&arena);
  };

  explicit Call(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Runner& runner() const { return state_->runner(); }
  const Request& request() const { return *state_->request; }
  Response& response() const { return *state_->response; }
  // Bytes of the request and of the response that lie beside the messages.
  const Attachments& attachments() const { return state_->attachments(); }
  Attachments& reply_attachments() const { return state_->reply_attachments(); }
  const std::shared_ptr<Cancellation>& cancellation() const { return state_->cancellation(); }
  const PeerPtr& peer() const { return state_->peer(); }
  // The name of the caller, if it is one caller's alone; empty: nobody knows it.
  std::string caller_name() const { return state_->caller_name(); }
  // Whether the server knows who calls.
  bool has_caller() const { return state_->has_caller(); }
  // Null: nobody asks who callers are.
  const IdentityPtr& caller() const { return state_->caller(); }
  // The names that the caller may say: a list has these alone.
  const Reach& reach() const { return state_->reach(); }
  // The times of its parts, for the access log. To be set before the call is finished; a `timing` of the response sets them.
  CallPhases& phases() const { return state_->phases(); }
  // The most bytes of a reply.
  int64_t max_reply_bytes() const { return state_->runner().limits.max_message_bytes; }
  // Whether the call carries a sequence number: its answer is kept for repetitions.
  bool numbered() const { return state_->numbered(); }
  // The call leaves something for later calls that no live checkpoint has: gradients, a forward pass to go back from.
  void Leaves() const { state_->SetEffect(Sequences::Effect::kLeaves); }
  // The call uses up, or makes void, what earlier ones have left so: a live checkpoint has the model whole.
  void Settles() const { state_->SetEffect(Sequences::Effect::kSettles); }
  // For methods with several answers: see Rpc::TrySend.
  bool TrySend(Response response) const {
    SetDurable(&response);
    return state_->TrySend(&response);
  }
  // For calls of many steps: see Rpc::Between.
  void Between(std::function<void()> go_on) const { state_->Between(std::move(go_on)); }

  void Finish(const absl::Status& status = absl::OkStatus()) const {
    if (status.ok()) SetDurable(&response());
    if constexpr (requires { response().timing().compute(); }) {
      const auto& timing = response().timing();
      phases() = {FromProto(timing.queue()), FromProto(timing.compute()), FromProto(timing.callback())};
    }
    state_->Finish(status, state_->response);
  }
  // Ends the call with `tensors` in `field` of the response, which is complete but for them. Where encoding them takes
  // long, another thread does it: the caller may be on a lane, which is for operators.
  template <class Tensors, class Field>
  void FinishWith(Tensors tensors, v1::Tensor::Encoding form, Field* field) const {
    const bool takes_long = TakesLongToEncode(tensors, form, /*kept=*/numbered());
    auto finish = [call = *this, tensors = std::move(tensors), form, field] {
      const absl::Status encoded =
          EncodeTensors(tensors, form, call.max_reply_bytes(), field, &call.reply_attachments());
      if (encoded.ok() || !call.numbered()) return call.Finish(encoded);
      // The state has changed: the number is used up, and a repetition is answered by statistics.
      *field = Field();
      (void)EncodeTensors(tensors, v1::Tensor::STATISTICS, call.max_reply_bytes(), field, &call.reply_attachments());
      call.state_->FinishApplied(encoded, call.state_->response);
    };
    state_->runner().dispatch.Run(takes_long ? Weight::kHeavy : Weight::kLight, std::move(finish));
  }

 private:
  void SetDurable(Response* response) const {
    if constexpr (requires { response->set_durable_sequence(0); }) {
      const Runner& runner = state_->runner();
      if (!numbered() || !runner.tells_durable) return;
      response->set_durable_sequence(runner.sequences.Durable(request().call().client_id(), request().model()));
    }
  }

  std::shared_ptr<State> state_;
};

#define ASSIGN_OR_FINISH(call, lhs, expr) \
  GLUOND_ASSIGN_OR_FINISH_(GLUOND_CONCAT_(or_, __LINE__), call, lhs, expr)
#define GLUOND_ASSIGN_OR_FINISH_(or_, call, lhs, expr) \
  auto or_ = (expr);                                   \
  if (!or_.ok()) return (call).Finish(or_.status());   \
  lhs = *std::move(or_)
#define FINISH_IF_ERROR(call, expr) \
  if (absl::Status status_ = (expr); !status_.ok()) return (call).Finish(status_)

// The numbered call's place in its client's order; see sequence.h.
struct Numbered {
  std::string client;
  std::string model;
  uint64_t number;
};
Sequences::Arrival ToArrival(Numbered numbered, const google::protobuf::Message& request, const Attachments& attachments);
// Checks what the client said, before the names of its tenant and its caller come before it. INVALID_ARGUMENT.
absl::Status CheckNumbered(const Numbered& said);

namespace unary_internal {

// The name that a request is about: of its model, or of whatever else it names.
template <class Request>
std::string TargetOf(const Request& request) {
  std::string target;
  const auto take = [&target](const std::string& name) {
    if (target.empty()) target = name;
  };
  if constexpr (requires { take(request.model()); }) take(request.model());
  if constexpr (requires { take(request.model_name()); }) take(request.model_name());
  if constexpr (requires { take(request.served()); }) take(request.served());
  if constexpr (requires { take(request.dataset()); }) take(request.dataset());
  if constexpr (requires { take(request.checkpoint()); }) take(request.checkpoint());
  if constexpr (requires { take(request.name()); }) take(request.name());
  return target;
}

// Making the tensors of a short request may take long.
template <class Request>
Weight WeightOfTensors(const Request& request) {
  bool large = false;
  if constexpr (requires { HasLargeFill(request.inputs()); }) large = large || HasLargeFill(request.inputs());
  if constexpr (requires { HasLargeFill(request.parameters()); }) large = large || HasLargeFill(request.parameters());
  if constexpr (requires { HasLargeFill(request.states()); }) large = large || HasLargeFill(request.states());
  if constexpr (requires { HasLargeFill(request.head_gradients()); }) {
    large = large || HasLargeFill(request.head_gradients());
  }
  if constexpr (requires { HasLargeFill(request.tensors()); }) large = large || HasLargeFill(request.tensors());
  return large ? Weight::kHeavy : Weight::kLight;
}

// A client's name for itself matters to numbered calls and to uploads.
template <class Request, class Response>
absl::Status CheckSaid(const Request& request, const Response& response) {
  if constexpr (requires { response.replayed(); }) {
    const auto& call = request.call();
    return call.sequence() == 0 ? absl::OkStatus() : CheckNumbered({call.client_id(), request.model(), call.sequence()});
  } else if constexpr (requires { request.call(); }) {
    return CheckClientId(request.call().client_id());
  } else {
    return absl::OkStatus();
  }
}

template <class State, class Handler>
void RunInOrder(const std::shared_ptr<State>& state, const Handler& handler) {
  if constexpr (requires { state->response->replayed(); }) {
    if (state->request->call().sequence() != 0) {
      if (absl::Status status = state->runner().check_loaded(state->request->model()); !status.ok()) {
        return state->Finish(status, nullptr);
      }
      Sequences::Arrival arrival =
          ToArrival({state->request->call().client_id(), state->request->model(), state->request->call().sequence()},
                    *state->request, state->attachments());
      arrival.refuse = [state](const absl::Status& status) { state->Finish(status, nullptr); };
      arrival.replay = [state](const std::string& answer) { state->FinishWithStoredAnswer(answer, state->response); };
      arrival.run = [state, handler](std::unique_ptr<Sequences::Turn> turn) {
        state->SetTurn(std::move(turn));
        const absl::Status status = state->cancellation()->Check();
        status.ok() ? handler(state) : state->Finish(status, nullptr);
      };
      return state->runner().sequences.Arrive(std::move(arrival));
    }
  } else if constexpr (requires { state->request->call(); }) {
    if (state->request->call().sequence() != 0) {
      return state->Finish(absl::InvalidArgumentError("an upload takes no sequence: its chunks say where they belong; leave "
                                                      "`call.sequence` out"), nullptr);
    }
  }
  handler(state);
}

}  // namespace unary_internal

// Runs one call of `method`, whose message has come, for the calling thread's account. `handler` outlives all calls.
template <class Request, class Response>
void RunUnary(Runner& runner, const Method& method, const std::function<void(Call<Request, Response>)>& handler,
              Rpc::OneCall* stream, Slices* request) {
  using State = typename Call<Request, Response>::State;
  auto state = std::make_shared<State>(runner, method, stream);
  if (absl::Status status = state->Admit(request); !status.ok()) return state->Finish(status, nullptr);
  const int64_t bytes = state->bytes_to_parse();
  auto work = [state, slices = std::move(*request), handler = &handler] {
    // Nobody may want the answer any more of a call that has waited for its turn.
    if (absl::Status status = state->cancellation()->Check(); !status.ok()) return state->Finish(status, nullptr);
    if (absl::Status status = state->Parse(slices, state->request); !status.ok()) {
      return state->Finish(status, nullptr);
    }
    if (absl::Status status = unary_internal::CheckSaid(*state->request, *state->response); !status.ok()) {
      return state->Finish(status, nullptr);
    }
    if (!state->reach().is_everything()) Qualify(state->reach(), state->request);
    if constexpr (requires { state->request->call().client_id(); }) {
      state->SetClient(state->request->call().client_id());
      state->Scope(state->request->mutable_call()->mutable_client_id());
    } else if constexpr (requires { state->request->client_id(); }) {
      state->Scope(state->request->mutable_client_id());
    }
    state->SetTarget(unary_internal::TargetOf(*state->request));
    if constexpr (requires { state->request->commit(); }) {
      if (!state->request->commit()) state->SetUnaudited();
    }
    const auto answer = [handler](const std::shared_ptr<State>& s) { (*handler)(Call<Request, Response>(s)); };
    state->Touch(*state->request);
    state->runner().dispatch.Run(state->WeightOfTouching(), [state, answer] {
      if (absl::Status status = state->MayTouch(); !status.ok()) return state->Finish(status, nullptr);
      state->runner().dispatch.Run(unary_internal::WeightOfTensors(*state->request),
                                   [state, answer] { unary_internal::RunInOrder(state, answer); });
    });
  };
  runner.dispatch.Run(Dispatch::OfCall(method.weight, bytes, state->TakesTurn()), std::move(work));
}

}  // namespace gluond::server

#endif  // SERVER_RPC_UNARY_H_
