// A Call is what a method has of a call with one message: its request and its reply by their types.
//
//   void ModelService::GetModel(Call<v1::GetModelRequest, v1::GetModelResponse> call) {
//     ASSIGN_OR_FINISH(call, std::shared_ptr<Model> model, models_.Find(call.request().model()));
//     Describe(*model, call.response().mutable_model());
//     call.Finish();
//   }
//
// A Call is a handle: copies mean the same call, which ends at the first Finish; a later Finish is ignored. A call that
// nobody finishes ends with INTERNAL when its last handle goes. Handles may be used from any thread, one at a time.

#ifndef SERVER_RPC_CALL_H_
#define SERVER_RPC_CALL_H_

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"
#include "server/codec/tensors_codec.h"
#include "server/rpc/unary_call.h"

namespace gluond::server {

template <class Request, class Response>
class Call {
 public:
  explicit Call(CallPtr call) : call_(std::move(call)) {}

  Runner& runner() const { return call_->runner(); }
  const Request& request() const { return static_cast<const Request&>(call_->request()); }
  Response& response() const { return static_cast<Response&>(call_->reply()); }
  // Bytes of the request and of the response that lie beside the messages.
  const Attachments& attachments() const { return call_->attachments(); }
  Attachments& reply_attachments() const { return call_->reply_attachments(); }
  const std::shared_ptr<Cancellation>& cancellation() const { return call_->cancellation(); }
  const PeerPtr& peer() const { return call_->peer(); }
  // The name of the caller, if it is one caller's alone; empty: nobody knows it.
  std::string caller_name() const { return call_->caller_name(); }
  // Whether the server knows who calls.
  bool has_caller() const { return call_->caller() != nullptr; }
  // Null: nobody asks who callers are.
  const IdentityPtr& caller() const { return call_->caller(); }
  // The names that the caller may say: a list has these alone.
  const Reach& reach() const { return call_->reach(); }
  // The times of its parts, for the access log. To be set before the call is finished; a Timing in the response sets them.
  CallPhases& phases() const { return call_->phases(); }
  // Whether the call carries a sequence number: its answer is kept for repetitions.
  bool numbered() const { return call_->numbered(); }
  // The call leaves something for later calls that no live checkpoint has: gradients, a forward pass to go back from.
  void Leaves() const { call_->SetEffect(Sequences::Effect::kLeaves); }
  // The call uses up, or makes void, what earlier ones have left so: a live checkpoint has the model whole.
  void Settles() const { call_->SetEffect(Sequences::Effect::kSettles); }
  // For methods with several answers: see UnaryCall::TrySend.
  bool TrySend(Response response) const { return call_->TrySend(&response); }
  // For calls of many steps: see UnaryCall::Between.
  void Between(std::function<void()> go_on) const { call_->Between(std::move(go_on)); }

  void Finish(const absl::Status& status = absl::OkStatus()) const { call_->Finish(status); }
  // A callback for a function that gives a Status or a StatusOr: an error ends the call; else `go_on` is called, with the value
  // of a StatusOr.
  template <class GoOn>
  auto Then(GoOn go_on) const {
    return [call = *this, go_on = std::move(go_on)](auto result) mutable {
      const auto go = [&go_on](auto... value) { go_on(std::move(value)...); };
      if constexpr (std::is_same_v<decltype(result), absl::Status>) {
        result.ok() ? go() : call.Finish(result);
      } else {
        result.ok() ? go(*std::move(result)) : call.Finish(result.status());
      }
    };
  }
  // Ends the call with `tensors` in `field` of the response, which is complete but for them. Where encoding them takes
  // long, another thread does it: the caller may be on a lane, which is for operators.
  template <class Tensors, class Field>
  void FinishWith(Tensors tensors, v1::Tensor::Encoding form, Field* field) const {
    const bool takes_long = TakesLongToEncode(tensors, form, /*kept=*/numbered());
    auto finish = [call = *this, tensors = std::move(tensors), form, field] {
      const int64_t most_bytes = call.runner().limits.max_message_bytes;
      const absl::Status encoded = EncodeTensors(tensors, form, most_bytes, field, &call.reply_attachments());
      if (encoded.ok() || !call.numbered()) return call.Finish(encoded);
      // The state has changed: the number is used up, and a repetition is answered by statistics.
      *field = Field();
      (void)EncodeTensors(tensors, v1::Tensor::STATISTICS, most_bytes, field, &call.reply_attachments());
      call.call_->FinishApplied(encoded);
    };
    runner().dispatch.Run(takes_long ? Weight::kHeavy : Weight::kLight, std::move(finish));
  }

 private:
  CallPtr call_;
};

#define ASSIGN_OR_FINISH(call, lhs, expr) GLUOND_ASSIGN_OR_FINISH_(GLUOND_CONCAT_(or_, __LINE__), call, lhs, expr)
#define GLUOND_ASSIGN_OR_FINISH_(or_, call, lhs, expr) \
  auto or_ = (expr);                                   \
  if (!or_.ok()) return (call).Finish(or_.status());   \
  lhs = *std::move(or_)
#define FINISH_IF_ERROR(call, expr) \
  if (absl::Status status_ = (expr); !status_.ok()) return (call).Finish(status_)

}  // namespace gluond::server

#endif  // SERVER_RPC_CALL_H_
